import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { captionOf, defaultsOf, toLines as toCurves, toMarks } from "../../../master/mlbench_master/web/static/js/compare/curves.js";
import { toPhases, toRows, toSpeedups } from "../../../master/mlbench_master/web/static/js/side/verdict.js";
import { Loader, ofRecorded } from "../../../master/mlbench_master/web/static/js/compare/loader.js";
import { groupColumns, toBars } from "../../../master/mlbench_master/web/static/js/compare/results.js";
import { foldsOf, headlineOf, shortLabels, versionsOf } from "../../../master/mlbench_master/web/static/js/compare/verdict.js";
import { styleOf } from "../../../master/mlbench_master/web/static/js/plot.js";
import { formatSelection, parseSelection, toggled } from "../../../master/mlbench_master/web/static/js/side/side.js";

test("the URL selects each run once and keeps its position, which determines the colour", () => {
  deepEqual(parseSelection("3, 1,3,x,2 7"), [{ id: 3, place: 0 }, { id: 1, place: 1 }, { id: 2, place: 4 }, { id: 7, place: 5 }]);
  deepEqual(parseSelection(""), []);
  const without = toggled(parseSelection("5,6,7"), 6);
  equal(formatSelection(without), "5,-,7");
  deepEqual(parseSelection("5,-,7"), without);
  equal(formatSelection(toggled(without, 9)), "5,9,7");
  equal(formatSelection(toggled(without, 7)), "5");
});

test("twenty runs have different styles", () => {
  const looks = Array.from({ length: 20 }, (_, place) => JSON.stringify(styleOf(place)));
  equal(new Set(looks).size, 20);
  deepEqual(styleOf(1), { colour: "--series-1", dash: "solid" });
  deepEqual(styleOf(8), { colour: "--series-0", dash: "dash" });
});

const LOSS = { times: [11_000, 12_000, 16_000], values: [3, 2, 1] };
const SECONDS = { times: [11_000, 13_000, 15_000], values: [0.5, 2.5, 2.5] };
const STEP = { times: [12_000, 16_000], values: [10, 50] };

/** The curve of a run that started at 10 s. */
function recorded(/** @type {Record<string, any>} */ metrics, /** @type {string} */ axis) {
  const byMetric = Object.entries(metrics).map(([name, { times, values }]) => {
    const series = { times, values, lows: values, highs: values };
    return /** @type {const} */ ([name, new Map([[0, series]])]);
  });
  return ofRecorded(new Map(byMetric), "train_loss", axis, "1970-01-01T00:00:10Z");
}

for (const [axis, x, y] of /** @type {[string, number[], number[]][]} */ ([
  ["wall", [1, 2, 6], [3, 2, 1]],
  // Training time is interpolated.
  ["training", [0.5, 1.5, 2.5], [3, 2, 1]],
  // Training time is not known before the first step.
  ["step", [10, 50], [2, 1]],
])) {
  test(`a curve has the positions of the axis ${axis}`, () => {
    const curve = recorded({ train_loss: LOSS, train_seconds: SECONDS, step: STEP }, axis);
    deepEqual([curve.x, curve.y], [x, y]);
  });
}

test("a curve without its clock is not drawn", () => {
  deepEqual(recorded({ train_loss: LOSS }, "training").x, []);
});

test("a run’s curve has its label and its colour", () => {
  const results = /** @type {any} */ ([
    { run_id: 1, display_name: "a", swept: {} },
    { run_id: 2, display_name: "b", swept: { exchange: "topk", bandwidth: "20" } },
  ]);
  const styles = { 1: { colour: "--series-1" }, 2: { colour: "--series-2" } };
  const lines = toCurves(results, [{ x: [1], y: [1] }, { x: [2], y: [2] }], (id) => styles[id]);
  deepEqual(lines.map(({ name, x, colour, keys }) => [name, x, colour, keys]), [
    ["\u2068a\u2069 #1", [1], "--series-1", [1]],
    ["\u2068exchange topk, bandwidth 20\u2069 #2", [2], "--series-2", [2]],
  ]);
});

test("the main metric and the training loss are drawn by default", () => {
  const offered = ["val_global_loss", "train_loss", "val_global_Prec@1"];
  deepEqual(defaultsOf(["val_R2", "val_global_Prec@1", "val_global_Prec@1"], offered), ["val_global_Prec@1", "train_loss"]);
  deepEqual(defaultsOf([], ["accuracy", "loss"]), ["accuracy", "loss"]);
  deepEqual(defaultsOf([], ["speed"]), ["speed"]);
  deepEqual(defaultsOf([], []), []);
});

test("a figure’s caption has runs, seeds, version and contention", () => {
  const results = /** @type {any} */ ([{ run_id: 4, contention_share: 0.02 }, { run_id: 5, contention_share: 0.04 }]);
  const machines = [{ packages: { torch: "2.13" }, git: { commit: "4f2a91c0e" }, code: "train.py 3f2a" }];
  const manifests = /** @type {any} */ ([1, 2].map((seed) => ({ seed, versions: { mlbench: "0.1.0" }, machines })));
  equal(captionOf(results, manifests), "Runs 4–5; seeds 1–2; MLBench 0.1.0 · PyTorch 2.13 · commit 4f2a91c · code train.py 3f2a; CPU contention up to 4 %.");
  equal(captionOf(results.slice(1).map((result) => ({ ...result, contention_share: null })), []), "Run 5.");
});

test("each target is marked once", () => {
  const target = { metric: "val_Prec@1", value: 97 };
  const results = /** @type {any} */ ([{ target }, { target }, { target: null }]);
  deepEqual(toMarks(results, "val_Prec@1"), [{ y: 97, text: "target 97 %" }]);
});

/** Return the rows of a comparison of two runs with these seeds. */
function rows(/** @type {any[]} */ differences, /** @type {number[]} */ seeds, swept = [{}, {}], workers = [1, 1]) {
  const results = /** @type {any} */ (swept.map((values, i) => ({ run_id: i + 1, num_workers: workers[i], swept: values })));
  const manifests = seeds.map((seed, i) => ({ seed, limits: { max_bandwidth: Object.values(swept[i])[0] ?? null } }));
  return toRows({ differences, results }, /** @type {any} */ (manifests));
}

test("a swept option is listed as swept", () => {
  const [row, ...others] = rows([], [1, 1], [{ "batch-size": "128" }, { "batch-size": "64" }]);
  deepEqual([row.name, row.breaks, ...row.values], ["batch_size", "swept", "128", "64"]);
  deepEqual(others, []);
});

test("differences that break the comparison come first, without duplicates", () => {
  const values = [{ value: "64", run_ids: [2] }, { value: "128", run_ids: [1] }];
  const differences = rows([{ name: "batch_size", breaks: "yes", values }], [1, 1], [{}, {}], [1, 2]);
  deepEqual(differences.map((row) => [row.name, row.breaks, ...row.values]), [
    ["batch_size", "yes", "128", "64"],
    ["num_workers", "no", "1", "2"],
  ]);
  deepEqual(rows([], [1, 1]), []);
});

test("different seeds are listed once, as a difference in learning", () => {
  const values = [{ value: "1", run_ids: [1] }, { value: "8", run_ids: [2] }];
  for (const judged of [[], [{ name: "seed", breaks: "learning", values }]])
    deepEqual(rows(judged, [1, 8]).map((row) => [row.name, row.breaks, ...row.values]), [["seed", "learning", "1", "8"]]);
});

/** A group of a comparison. @returns {any} */
function group(num_workers, runs, mean, more = {}) {
  return {
    label: `${num_workers} workers`,
    num_workers,
    run_ids: [...Array(runs).keys()],
    reached: mean ? runs : 0,
    training_seconds_to_target: mean && { mean, mean_low: mean - 1, mean_high: mean + 1 },
    speedup: null,
    throughput_speedup: null,
    phases: {},
    ...more,
  };
}

/** The bars of groups and of runs with these training times. */
function bars(groups, ...seconds) {
  const results = seconds.map((training_seconds, i) => ({
    run_id: i + 1,
    display_name: "r",
    swept: {},
    state: "FINISHED",
    target: { metric: "acc", value: 90, lower_is_better: false },
    outcome: null,
    time_to_target: training_seconds && { training_seconds, wall_seconds: 99 },
  }));
  const visible = results.map(({ run_id }) => run_id);
  return toBars(/** @type {any} */ ({ groups, results }), visible, (id) => ({ colour: `--series-${id}` }));
}

test("groups of several runs have bars with the interval of their mean", () => {
  const chart = bars([group(1, 2, 9, { run_ids: [1, 2] }), group(2, 2, null, { run_ids: [3, 4] })], 9, 9, 9, 9);
  deepEqual(
    chart.bars.map(({ name, text, pieces, low, high }) => [name.replace(/[\u2068\u2069]/g, ""), text, pieces.map(({ value, colour }) => [value, colour]), low, high]),
    [["1 workers", "9.00 s", [[9, "--series-1"]], 8, 10], ["2 workers (0 of 2 reached)", "not reached", [], undefined, undefined]],
  );
  deepEqual(chart.bars.map(({ keys }) => keys), [[1, 2], [3, 4]]);
  equal(chart.note, "mean of each group, 95 % interval");
});

test("each single run has a bar, sorted by time", () => {
  const ofRun = (/** @type {number} */ id, /** @type {number | null} */ mean) => group(1, 1, mean, { run_ids: [id] });
  const chart = bars([ofRun(1, 9), ofRun(2, null), ofRun(3, 3)], 9, null, 3);
  deepEqual(chart.bars.map(({ name, text }) => [name.replace(/[\u2068\u2069]/g, ""), text]), [["r #3", "3.00 s"], ["r #1", "9.00 s"], ["r #2", "not reached"]]);
  deepEqual(chart.bars.map(({ pieces }) => pieces[0]?.colour), ["--series-3", "--series-1", undefined]);
  deepEqual(bars([ofRun(1, null)], null).bars, []);
});

test("an active run is shown as running, and a run without a target has no bar", () => {
  const results = [{ state: "FINISHED" }, { state: "STARTED" }, { state: "FINISHED", target: null }].map((result, i) => ({
    ...{ run_id: i + 1, display_name: "r", swept: {}, target: { metric: "acc", value: 90 } },
    ...result,
  }));
  const groups = [group(1, 1, 9, { run_ids: [1] }), group(2, 1, null, { run_ids: [2] }), group(3, 1, null, { run_ids: [3] })];
  const chart = toBars(/** @type {any} */ ({ groups, results }), [1, 2, 3], () => ({}));
  deepEqual(chart.bars.map(({ text }) => text), ["9.00 s", "running"]);
});

test("speed-ups are drawn with the ideal line if numbers of workers differ", () => {
  const lines = toSpeedups([group(2, 1, 9, { speedup: 1 }), group(8, 1, 3, { speedup: 3 })]);
  deepEqual(lines.map(({ name, x, y }) => [name, x, y]), [
    ["ideal", [2, 8], [1, 4]],
    ["time to target", [2, 8], [1, 3]],
  ]);
  deepEqual(toSpeedups([group(2, 1, 9, { speedup: 1 }), group(2, 1, 3, { speedup: 3 })]), []);
});

test("phases are in the order of a training step", () => {
  const [{ text, pieces }] = toPhases([group(1, 1, 1, { phases: { other: 1, backward: 2, data: 3 } })]);
  equal(text, "6 s");
  deepEqual(pieces.map(({ name, value, colour }) => [name, value, colour]), [
    ["data", 3, "--phase-data"],
    ["backward", 2, "--phase-backward"],
    ["other", 1, undefined],
  ]);
});

test("labels omit the common parts of all groups", () => {
  deepEqual(shortLabels(["2 workers, exchange ddp", "2 workers, exchange topk"]), ["ddp", "topk"]);
  deepEqual(shortLabels(["1 worker, lr 1", "2 workers, lr 1"]), ["1 worker", "2 workers"]);
  deepEqual(shortLabels(["lr 1, batch 2", "lr 1, batch 4", "lr 2, batch 4"]), ["lr 1, batch 2", "lr 1, batch 4", "lr 2, batch 4"]);
  deepEqual(shortLabels(["2 workers"]), ["2 workers"]);
  deepEqual(shortLabels(["exchange ddp, bandwidth 5", "exchange topk, bandwidth 20"]), ["ddp, bandwidth 5", "topk, bandwidth 20"]);
  deepEqual(shortLabels(["results-digits-w1", "results-digits-w2"]), ["…w1", "…w2"]);
  deepEqual(shortLabels(["digits-1", "digits-2", "digits-2-long"]), ["digits-1", "digits-2", "digits-2-long"]);
  deepEqual(shortLabels(["same-name-here", "same-name-here"]), ["…here", "…here"]);
});

/** A comparison of two groups of five runs. @returns {any} */
function compared(evidence, findings = {}) {
  const labels = ["2 workers, exchange powersgd", "2 workers, exchange ddp"];
  const groups = labels.map((label, i) => ({ label, run_ids: [1, 2, 3, 4, 5].map((id) => 5 * i + id), evidence: i ? evidence : null, contention_share: 0.02 + 0.03 * i, contention_doubt: "" }));
  const results = groups.flatMap(({ run_ids }) =>
    run_ids.map((run_id) => ({
      run_id,
      contention_share: run_id / 100,
      outcome: null,
      interferences: [0, 1].map((rank) => ({ rank, disturbed: run_id > 5, contention_share: run_id / 100 })),
    })),
  );
  const none = { reasons: [], learning: [], rule_violations: [], disturbed: [], notes: [], clock_faults: [], why: "", title: "", verdict: "yes" };
  return { groups, results, sets: [], differences: [], findings: { ...none, ...findings } };
}
const EVIDENCE = { p: 0.004, distinguishable: true, test: "paired t", baseline: 0, times_faster: 1.24, times_faster_low: 1.1, times_faster_high: 1.4, text: "they differ" };

test("the headline is the most significant difference, with its interval", () => {
  const { title, detail } = headlineOf(compared(EVIDENCE));
  equal(title, "ddp is 1.24× as fast as powersgd");
  equal(detail, "95 % 1.10 to 1.40, p = 0.004, 5 seeds each. CPU contention 2 to 5 %.");
  const slower = { ...EVIDENCE, times_faster: 0.5, times_faster_low: 0.4, times_faster_high: 0.8, test: "Mann-Whitney" };
  equal(headlineOf(compared(slower)).title, "powersgd is 2.00× as fast as ddp");
  equal(headlineOf(compared(slower)).detail.split(".").slice(0, 3).join("."), "95 % 1.25 to 2.50, p = 0");
  const alike = headlineOf(compared({ ...EVIDENCE, distinguishable: false, p: 0.4 }));
  equal(alike.title, "No significant difference between ddp and powersgd");
  ok(alike.detail.startsWith("1.24×, 95 % 1.10 to 1.40, p = 0.4"));
  const wide = { ...EVIDENCE, distinguishable: false, p: 1, times_faster_low: 0.001, times_faster_high: 74354 };
  ok(headlineOf(compared(wide)).detail.startsWith("1.24×, too few runs for an interval, p = 1"));
});

test("the headline of incomparable runs is the reason", () => {
  const reasons = ["target is 97 in run 1 and 80 in run 2", "data is other"];
  const { title, detail } = headlineOf(compared(EVIDENCE, { verdict: "no", title: "These runs cannot be compared", reasons }));
  deepEqual([title, detail], ["These runs cannot be compared", "Target is 97 in run 1 and 80 in run 2; 1 more"]);
});

test("single runs without a time are compared by throughput", () => {
  const fastest = { group: 0, slowest: 1, times_faster: 1.5, measure: "samples_per_second" };
  const { title, detail } = headlineOf(compared(null, { fastest }));
  deepEqual([title, detail], ["powersgd is 1.50× as fast as ddp", "Single runs have no interval."]);
});

test("reasons are grouped by kind and counted", () => {
  const notes = ["they differ", "run 3: the loss is NaN", "a caution"];
  const comparison = compared(EVIDENCE, { disturbed: ["run 6: a", "run 7: b"], notes, rule_violations: ["all runs: x", "run 1: y"] });
  comparison.results[2].outcome = { kind: "nan", text: "the loss is NaN" };
  const manifests = /** @type {any} */ (comparison.results.map(({ run_id }) => ({ run_id, versions: { mlbench: "0.1.0" }, machines: [] })));
  const seeds = new Map(comparison.results.map(({ run_id }) => [run_id, 1 + ((run_id - 1) % 5)]));
  const folds = foldsOf(comparison, manifests, seeds);
  deepEqual(folds.map(({ term, text, details }) => [term, text, details.length]), [
    ["Task", "the same data, target and batch size", 0],
    ["Outcomes", "run 3: the loss is NaN", 0],
    ["Contention", "10 of 20 ranks had contention, 6 to 10 %", 2],
    ["Significance", "they differ", 0],
    ["Seeds", "1–5 in every group, paired", 0],
    ["Rules", "2 rule violations", 2],
    ["Notes", "a caution", 0],
    ["Versions", "equal: MLBench 0.1.0", 0],
  ]);
  equal(versionsOf([]), "");
});

test("a comparison with a missing run fails", async () => {
  const paths = [];
  Object.assign(globalThis, { location: { search: "?by=lr%2Cepochs&target=acc%3E%3D9" } });
  globalThis.fetch = async (path) => {
    paths.push(path);
    return new Response(JSON.stringify({ message: "not found" }), { status: 404 });
  };
  equal(await new Loader().compare(new Map([[7, "a"]])), null);
  deepEqual(paths, ["/api/compare/?runs=7&target=acc%3E%3D9&group=lr%2Cepochs", "/api/runs/7/manifest/"]);
});

test("groups of as many workers have no speed-up", () => {
  const summary = { mean: 5, mean_low: 4, mean_high: 6 };
  const titles = (...workers) => {
    const groups = workers.map((count) => group(count, 3, 5, { samples_per_second: summary, speedup: 1, swept: {} }));
    return groupColumns(groups).map(({ title }) => title).filter((title) => title.startsWith("Speed-up"));
  };
  deepEqual(titles(2, 2), []);
  deepEqual(titles(1, 2), ["Speed-up by time"]);
});
