import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { parseRuns, toParams, toView } from "../../../master/mlbench_master/web/static/js/compare/choice.js";
import * as curves from "../../../master/mlbench_master/web/static/js/compare/curves.js";
import { matches, toRows } from "../../../master/mlbench_master/web/static/js/compare/differences.js";
import { inOrder } from "../../../master/mlbench_master/web/static/js/compare/loader.js";
import { toPhases, toSpeedups } from "../../../master/mlbench_master/web/static/js/compare/scaling.js";
import { toLines } from "../../../master/mlbench_master/web/static/js/compare/sweep.js";
import { toBars } from "../../../master/mlbench_master/web/static/js/compare/times.js";
import { toNotes } from "../../../master/mlbench_master/web/static/js/compare/verdict.js";
import { styleOfRun } from "../../../master/mlbench_master/web/static/js/plot.js";

test("runs are given by their ids", () => {
  deepEqual(parseRuns("3, 1 3,,2"), { ids: [3, 1, 2], wrong: "" });
  deepEqual(parseRuns("one,2,0,-1,1e3"), { ids: [2], wrong: "one, 0, -1, 1e3" });
});

test("an address describes the view that it was made of", () => {
  const view = { runs: "3,1", target: "a>=1", metrics: ["b", "c,d"], axis: "step", ofGroups: true };
  const pairs = Object.entries(toParams(view)).flatMap(([key, values]) => [values].flat().map((text) => [key, text]));
  deepEqual(toView(new URLSearchParams(pairs)), view);
  equal(toView(new URLSearchParams("axis=sideways")).axis, "");
});

test("no two of twenty runs look the same", () => {
  const ids = Array.from({ length: 20 }, (_, i) => 3 * i + 1);
  const looks = ids.map((id) => JSON.stringify(styleOfRun(id, ids)));
  equal(new Set(looks).size, 20);
});

test("runs have colours in the order of their selection", () => {
  deepEqual(styleOfRun(13, [8, 13]), { colour: "--series-1", dash: "solid" });
  deepEqual(styleOfRun(9, [1, 2, 3, 4, 5, 6, 7, 8, 9]), { colour: "--series-0", dash: "dash" });
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
  return curves.ofRecorded(new Map(byMetric), "train_loss", axis, "1970-01-01T00:00:10Z");
}

for (const [axis, x, y] of /** @type {[string, number[], number[]][]} */ ([
  ["wall", [1, 2, 6], [3, 2, 1]],
  // Training time is interpolated.
  ["training", [0.5, 1.5, 2.5], [3, 2, 1]],
  // Before the first step, it is not known.
  ["step", [10, 50], [2, 1]],
])) {
  test(`curves start together on the axis ${axis}`, () => {
    const curve = recorded({ train_loss: LOSS, train_seconds: SECONDS, step: STEP }, axis);
    deepEqual([curve.x, curve.y], [x, y]);
  });
}

test("without its clock there is no curve", () => {
  deepEqual(recorded({ train_loss: LOSS }, "training").x, []);
});

test("a run’s curve has its label and its colour", () => {
  const results = /** @type {any} */ ([
    { run_id: 1, display_name: "a", swept: {} },
    { run_id: 2, display_name: "b", swept: { exchange: "topk", bandwidth: "20" } },
  ]);
  const lines = curves.toLines(results, [{ x: [1], y: [1] }, { x: [2], y: [2] }]);
  deepEqual(lines.map(({ name, x, colour }) => [name, x, colour]), [
    ["1 · a", [1], "--series-0"],
    ["2 · exchange topk, bandwidth 20", [2], "--series-1"],
  ]);
});

test("of metrics, a loss that all runs have comes first", () => {
  const [first, second] = [["accuracy", "step", "val_loss", "train_loss"], ["val_loss", "b", "step"]];
  deepEqual(inOrder([first, second]), ["val_loss", "train_loss", "accuracy", "b", "step"]);
  deepEqual(inOrder([["z", "a"], ["z"]]), ["z", "a"]);
});

test("each target is marked once", () => {
  const target = { metric: "val_Prec@1", value: 97 };
  const results = /** @type {any} */ ([{ target }, { target }, { target: null }]);
  deepEqual(curves.toMarks(results, "val_Prec@1"), [{ y: 97, text: "target 97 %" }]);
});

/** A manifest. @returns {any} */
function manifest(/** @type {object} */ settings, packages = {}, limits = {}) {
  const machines = [{ ranks: [0], cpu_model: "A", packages }];
  return { benchmark: "digits", args: {}, settings, limits, versions: { mlbench: "1" }, machines };
}

/** The rows of two runs. */
function rows(/** @type {any[]} */ differences, /** @type {any[]} */ ...manifests) {
  const results = /** @type {any} */ ([{ run_id: 1 }, { run_id: 2 }]);
  return toRows({ differences, results }, manifests);
}

test("differences that break the comparison come first, and once", () => {
  const values = [{ value: "64", run_ids: [2] }, { value: "128", run_ids: [1] }];
  const differences = rows(
    [{ name: "batch_size", breaks: "yes", values }],
    manifest({ batch_size: 128, seed: 1 }, { torch: "2" }, { num_workers: 1 }),
    manifest({ batch_size: 64, seed: 1 }, { torch: "3" }, { num_workers: 2 }),
  );
  deepEqual(differences.map((row) => [row.group, row.name, row.breaks, ...row.values]), [
    ["Settings", "batch_size", "yes", "128", "64"],
    ["Limits", "num_workers", "no", "1", "2"],
    ["Packages", "torch", "no", "2", "3"],
  ]);
});

test("a seed has a part in learning, and is told once, run by run", () => {
  const values = [{ value: "1", run_ids: [1] }, { value: "8", run_ids: [2] }];
  const stated = [1, 8].map((seed) => ({ ...manifest({ seed }), seed }));
  for (const judged of [[], [{ name: "seed", breaks: "learning", values }]]) {
    const differences = rows(judged, ...stated);
    deepEqual(differences.map((row) => [row.name, row.breaks, ...row.values]), [
      ["seed", "learning", "1", "8"],
    ]);
  }
});

test("what was ordered is not told beside what the runs had", () => {
  const values = [{ value: "ddp", run_ids: [1] }, { value: "topk", run_ids: [2] }];
  const ordered = ["ddp", "topk"].map((exchange, i) => ({
    ...manifest({ exchange }),
    args: i ? { exchange } : {},
  }));
  const differences = rows([{ name: "exchange", breaks: "learning", values }], ...ordered);
  deepEqual(differences.map((row) => [row.group, row.name]), [["Settings", "exchange"]]);
});

test("a fact that one run does not state is a difference, an equal one is none", () => {
  const [row] = rows([], manifest({ momentum: 0.9 }), manifest({}));
  deepEqual(row.values, ["0.9", "not reported"]);
  deepEqual(rows([], manifest({ a: 1 }), manifest({ a: 1 })), []);
});

for (const [text, isFound] of /** @type {[string, boolean][]} */ ([
  [" cifar ", true],
  ["DATA", true],
  ["digits", false],
])) {
  test(`the filter ${text} matches: ${isFound}`, () => {
    const row = /** @type {any} */ ({ group: "Settings", name: "data", values: ["CIFAR-10"] });
    equal(matches(row, text), isFound);
  });
}

/** A group of a comparison. @returns {any} */
function group(num_workers, runs, mean, more = {}) {
  return {
    label: `${num_workers} workers`,
    num_workers,
    run_ids: [...Array(runs).keys()],
    reached: mean ? runs : 0,
    training_seconds_to_target: mean && { mean, minimum: mean - 1, maximum: mean + 1 },
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
    time_to_target: training_seconds && { training_seconds, wall_seconds: 99 },
  }));
  return toBars(/** @type {any} */ ({ groups, results }));
}

test("groups of several runs have bars with whiskers", () => {
  const chart = bars([group(1, 2, 9), group(2, 2, null)], 9, 9, 9, 9);
  deepEqual(
    chart.bars.map(({ name, text, pieces, low, high }) => [name, text, pieces.map(({ value }) => value), low, high]),
    [["1 workers", "9 s", [9], 8, 10], ["2 workers (0 of 2 reached)", "–", [], null, null]],
  );
});

test("single runs have a bar each, if they reached the target", () => {
  const chart = bars([group(1, 1, 9), group(2, 1, null)], 9, null);
  deepEqual(chart.bars.map(({ name, text }) => [name, text]), [["1 · r", "9 s"], ["2 · r (not reached)", "–"]]);
  deepEqual(chart.bars.map(({ pieces }) => pieces[0]?.colour), ["--series-0", undefined]);
  const none = bars([group(1, 1, null)], null);
  deepEqual([none.bars, none.note], [[], "No run reached its target."]);
});

test("speed-ups are drawn beside the ideal, if the workers differ", () => {
  const lines = toSpeedups([group(2, 1, 9, { speedup: 1 }), group(8, 1, 3, { speedup: 3 })]);
  deepEqual(lines.map(({ name, x, y }) => [name, x, y]), [
    ["ideal", [2, 8], [1, 4]],
    ["time to target", [2, 8], [1, 3]],
  ]);
  deepEqual(toSpeedups([group(2, 1, 9, { speedup: 1 }), group(2, 1, 3, { speedup: 3 })]), []);
});

test("phases come in the order of a step", () => {
  const [{ text, pieces }] = toPhases([group(1, 1, 1, { phases: { other: 1, backward: 2, data: 3 } })]);
  equal(text, "6 s");
  deepEqual(pieces.map(({ name, value, colour }) => [name, value, colour]), [
    ["data", 3, "--phase-data"],
    ["backward", 2, "--phase-backward"],
    ["other", 1, undefined],
  ]);
});

test("the fastest group is named with its lead, then what is to be known", () => {
  const target = { metric: "val_global_Prec@1", value: 97, lower_is_better: false };
  const findings = {
    fastest: { group: 1, slowest: 0, times_faster: 4 },
    learned_by: "What is learned may differ by: momentum.",
    notes: ["group 1 is told apart"],
    disturbed: ["run 2: rank 0 waited for a core"],
    clock_faults: [],
    rule_violations: ["all runs: it is late"],
  };
  const groups = [10, 2.5].map((mean, i) => ({ label: `group ${i}`, training_seconds_to_target: { mean } }));
  const comparison = { findings, groups, results: [{ target: null }, { target }] };
  deepEqual(toNotes(/** @type {any} */ (comparison)), [
    "Fastest: group 1 reached val_global_Prec@1 ≥ 97 % after 2.50 s of training, " +
      "4x the speed of group 0.",
    "What is learned may differ by: momentum.",
    "group 1 is told apart",
    "Run 2: rank 0 waited for a core",
    "All runs: it is late",
  ]);
});

test("a sweep has a line for each row, without the groups that have no figure", () => {
  const numbers = [5, 20, 100];
  const cell = (mean) => ({ mean, low: mean - 1, high: null, heat: 0 });
  const figure = {
    axis: "throughput",
    across: { numbers },
    by: { values: ["flat", "topk"] },
    cells: [[cell(10), cell(20), null], [cell(40), null, cell(60)]],
  };
  const lines = toLines(/** @type {any} */ (figure));
  deepEqual(lines.map(({ name, x, y, lows, highs }) => [name, x, y, lows, highs]), [
    ["flat", [5, 20], [10, 20], [9, 19], [10, 20]],
    ["topk", [5, 100], [40, 60], [39, 59], [40, 60]],
  ]);
});
