import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { forecast, roughly, slowestRank, timeLeft } from "../../../master/mlbench_master/web/static/js/home/active.js";
import { resourcesOf } from "../../../master/mlbench_master/web/static/js/records.js";
import { activityOf, countsOf, nodesOf, rankOf } from "../../../master/mlbench_master/web/static/js/workers/nodes.js";

const ACCURACY = { metric: "val_global_Prec@1", value: 90, lower_is_better: false };
const PERPLEXITY = { metric: "val_global_Perplexity", value: 50, lower_is_better: true };
const NOW = Date.parse("2026-11-29T12:00:00Z");

/** @type {any} */
const RUN = { num_workers: 2, num_cpus: null, gpu_enabled: false, target: null, settings: null, deadline_seconds: null };

function curve(end, valueAt) {
  const seconds = Array.from({ length: 30 }, (_, i) => ((i + 1) * end) / 30);
  return { seconds, values: seconds.map(valueAt) };
}

for (const [what, target, valueAt, expected] of /** @type {any[]} */ ([
  ["an accuracy that rises to 95", ACCURACY, (t) => 95 - 85 * Math.exp(-t / 100), 100 * Math.log(85 / 5)],
  ["a perplexity that falls to 30", PERPLEXITY, (t) => 30 + 400 * Math.exp(-t / 60), 60 * Math.log(400 / 20)],
  ["a noisy accuracy", ACCURACY, (t) => 95 - 85 * Math.exp(-t / 100) + 0.3 * Math.sin(7 * t), 100 * Math.log(85 / 5)],
]))
  test(`the forecast of ${what} is accurate to 10 %`, () => {
    const ahead = forecast(curve(150, valueAt), target);
    ok(Math.abs(ahead.seconds - expected) < expected / 10, `${ahead.seconds} instead of ${expected}`);
    equal(ahead.way.seconds[0], 150);
    equal(ahead.way.values[0], valueAt(150));
    ok(Math.abs(ahead.way.values.at(-1) - target.value) < 0.5);
  });

for (const [what, ...args] of /** @type {any[]} */ ([
  ["ends below its target", curve(150, (t) => 80 - 70 * Math.exp(-t / 40)), ACCURACY],
  ["falls", curve(150, (t) => 80 - t / 10), ACCURACY],
  ["is constant", curve(150, () => 50), ACCURACY],
  ["rises too slowly", curve(150, (t) => 10 + t / 1000), ACCURACY],
  ["has few points", { seconds: [1, 2, 3], values: [10, 20, 30] }, ACCURACY],
  ["has no points", { seconds: [], values: [] }, ACCURACY],
]))
  test(`a curve that ${what} has no forecast`, () => equal(forecast(args[0], args[1]), null));

for (const [seconds, text] of /** @type {[number, string][]} */ ([
  [0, "any moment"], [43.4, "≈ 43 s"], [372, "≈ 6.2 min"], [9000, "≈ 2.5 h"], [400_000, "≈ 4.6 d"],
]))
  test(`${seconds} s are rounded to "${text}"`, () => equal(roughly(seconds), text));

test("the remaining time of a run ends at its target, last epoch or deadline", () => {
  const ahead = { seconds: 100, way: { seconds: [], values: [] } };
  deepEqual(timeLeft({ ...RUN, deadline_seconds: 60 }, null, ahead, 40), { left: 60, until: "target" });
  const epochs = /** @type {any} */ ({ epochs: 31 });
  deepEqual(timeLeft({ ...RUN, settings: { epochs: 61 } }, epochs, null, 61), { left: 61, until: "last epoch" });
  deepEqual(timeLeft({ ...RUN, deadline_seconds: 60 }, null, null, 40), { left: 20, until: "deadline" });
  equal(timeLeft(RUN, null, null, 40), null);
});

test("the slowest rank is compared with the median of the others", () => {
  const ranks = [3, 8, 4, 5].map((compute_seconds, rank) => ({ rank, compute_seconds, step_seconds: 9 }));
  deepEqual(slowestRank(/** @type {any} */ (ranks)), { rank: 1, ratio: 2 });
  const unmeasured = ranks.map((rank) => ({ ...rank, compute_seconds: null, step_seconds: null }));
  equal(slowestRank(/** @type {any} */ (unmeasured)), null);
  equal(slowestRank([]), null);
});

test("workers are in natural order, by node", () => {
  const pods = ["w-10 n-2", "w-2 n-10", "w-1 n-2", "w-3 "].map((text) => ({ name: text.split(" ")[0], node: text.split(" ")[1] }));
  const nodes = nodesOf(/** @type {any} */ (pods)).map(({ node, pods: workers }) => [node, ...workers.map(({ name }) => name)]);
  deepEqual(nodes, [["n-2", "w-1", "w-10"], ["n-10", "w-2"], ["unknown node", "w-3"]]);
});

function pod(state, seconds, run_id = null) {
  const seen_at = seconds === null ? null : new Date(NOW - 1000 * seconds).toISOString();
  return /** @type {any} */ ({ name: "w", state, seen_at, run_id, rank: run_id && 1 });
}

test("workers are counted by state, and silent workers have the time since their last heartbeat", () => {
  const pods = [pod("running", 1, 3), pod("running", 2, 3), pod("idle", 1), pod("idle", 211), pod(null, null)];
  equal(countsOf(pods, NOW), "2 busy, 1 idle, 1 starting, 1 silent");
  const activities = ["running", "running", "idle", "silent for 3 min 31 s", "starting, no heartbeat yet"];
  deepEqual(pods.map((worker) => activityOf(worker, NOW)), activities);
  deepEqual(pods.map(rankOf), ["run 3, rank 1", "run 3, rank 1", "", "", ""]);
  equal(activityOf(pod("running", 1), NOW), "stopping its process");
});

test("the resources of a run have a short description", () => {
  equal(resourcesOf(RUN), "2 workers");
  equal(resourcesOf({ ...RUN, num_workers: 1, num_cpus: 1, gpu_enabled: true }), "1 worker, 1 core each, GPU");
});
