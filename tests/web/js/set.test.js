import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import * as answer from "../../../master/mlbench_master/web/static/js/compare/verdict.js";
import { scalingOf } from "../../../master/mlbench_master/web/static/js/compare/results.js";
import { remarkOf, rowsOf } from "../../../master/mlbench_master/web/static/js/set/plan.js";

const summary = (/** @type {number | null} */ mean, low = mean, high = mean) => ({ mean, mean_low: low, mean_high: high });
/** @returns {any} a group of three runs */
const group = (/** @type {object} */ swept, /** @type {any} */ seconds, more = {}) => ({
  ...{ label: Object.entries(swept).map((pair) => pair.join(" ")).join(", "), swept, num_workers: 2, run_ids: [1, 2, 3], reached: 3, disturbed: 0 },
  ...{ training_seconds_to_target: seconds, samples_per_second: null, contention_share: 0.02, contention_cost: 0.026 },
  ...more,
});
const groups = [
  group({ learning_rate: "0.1", batch_size: "64" }, summary(3.81, 3.2, 4.5)),
  group({ learning_rate: "1", batch_size: "64" }, summary(0.73, 0.68, 0.79)),
];
const fastest = { group: 1, slowest: 0, times_faster: 5.219, measure: "training_seconds_to_target", p: 0.0002, can_tell: true, second: null, second_p: null };
const comparison = /** @type {any} */ ({ groups, results: [1, 2], findings: { verdict: "disturbed", why: "", fastest } });

test("the headline is the best combination, with its interval in the same unit", () => {
  deepEqual(answer.answerOf(comparison, true), { title: "Fastest: learning rate 1, batch size 64 — ", mean: "0.73 s", interval: "0.68 to 0.79 s" });
  equal(answer.answerOf(comparison, false).title, "Fastest so far: learning rate 1, batch size 64 — ");
  const rates = groups.map((one, i) => ({ ...one, training_seconds_to_target: null, samples_per_second: summary(1000 * (2 - i)) }));
  const byRate = answer.answerOf({ ...comparison, groups: rates, findings: { ...comparison.findings, fastest: null } }, true);
  deepEqual([byRate.title, byRate.mean], ["Highest throughput: learning rate 0.1, batch size 64 — ", "2,000 samples/s"]);
  equal(answer.answerOf({ ...comparison, groups: [group({}, null)] }, true), null);
});

test("chips show comparability, the lead with its p-value, and the cost of contention", () => {
  deepEqual(
    answer.chipsOf(comparison).map(({ state, text }) => [state, text]),
    [["yes", "Comparable"], ["yes", "5.22× the slowest, p < 0.001"], ["", "CPU contention 2 %, costs about 3 %"]],
  );
  const few = { ...comparison, groups: [{ ...groups[0], reached: 2, disturbed: 1 }, groups[1]], findings: { verdict: "no", fastest: { ...fastest, can_tell: false } } };
  deepEqual(
    answer.chipsOf(few).map(({ state, text }) => [state, text]),
    [["no", "Not comparable"], ["", "5.22× the slowest, too few runs to test"], ["", "1 of 2 combinations missed the target"], ["warn", "CPU contention 2 %, costs about 3 %"]],
  );
});

test("an interval has its unit once", () => {
  const write = (/** @type {any} */ seconds) => answer.writerOf([group({}, seconds)], answer.MEASURES.time).interval(group({}, seconds));
  equal(write(summary(0.2, 0.15, 0.25)), "0.150 to 0.250 s");
  equal(write(summary(61, 50, 70)), "50.00 to 70.00 s");
  equal(write(summary(61, null, null)), "");
});

test("a group with more workers has its speed-up and efficiency", () => {
  const scaled = [group({}, summary(4), { num_workers: 1 }), group({}, summary(2.5), { speedup: 1.6, efficiency: 0.8 })];
  equal(scalingOf(scaled[1], scaled), "1.60×, efficiency 80 %");
  equal(scalingOf(scaled[0], scaled), "");
});

test("groups are sorted by mean, without groups that have none", () => {
  const missed = group({}, summary(null));
  deepEqual(answer.bestFirst([missed, ...groups], answer.MEASURES.time), [groups[1], groups[0]]);
});

test("the plan has a row for each run and for each open slot", () => {
  const trial = { run_id: 7 };
  const slots = [{ number: 1, is_open: false, trials: [trial] }, { number: 2, is_open: true, trials: [] }];
  const rows = rowsOf(/** @type {any} */ ({ slots }), /** @type {any} */ ([{ run_id: 7 }]));
  deepEqual(rows.map((row) => [row.trial, row.result]), [[trial, { run_id: 7 }], [null, {}]]);
});

test("a disturbed run is not said to have CPU contention, because it may only have been profiled", () => {
  const trial = /** @type {any} */ ({ state: "FINISHED", counts: true, remark: "disturbed" });
  equal(remarkOf(trial), "disturbed");
  equal(remarkOf({ ...trial, counts: false, remark: "crashed" }), "does not count: crashed");
});
