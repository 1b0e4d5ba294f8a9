import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { meanOf, toGroupLines } from "../../../master/mlbench_master/web/static/js/compare/curves.js";
import { toCsv } from "../../../master/mlbench_master/web/static/js/export.js";

const near = (values, expected) => {
  equal(values.length, expected.length);
  values.forEach((y, i) => ok(Object.is(y, expected[i]) || Math.abs(y - expected[i]) < 1e-8, `${y} at ${i}`));
};

// scipy.stats.t.ppf(0.975, freedom)
document.getElementById("quantiles").textContent = "[12.706204736174694,4.302652729749462]";

const styleOf = (/** @type {number} */ id) => ({ colour: `--series-${id}` });
const CURVES = [
  { x: [0, 1, 2, 4], y: [4, 3, 2.5, 1] },
  { x: [0.5, 1.5, 3], y: [5, 2, 2] },
  { x: [1, 2, 6], y: [3.5, 3, 0] },
];

test("the mean and its interval equal SciPy's, over the runs that have reached each point", () => {
  // For each position x, with v = [np.interp(x, run.x, run.y) for runs that cover x]:
  // np.mean(v) - scipy.stats.sem(v) * scipy.stats.t.ppf(0.975, len(v) - 1)
  const mean = meanOf(CURVES);
  deepEqual(mean.x, [0, 0.5, 1, 1.5, 2, 3, 4, 6]);
  deepEqual(mean.counts, [1, 2, 3, 3, 3, 3, 2, 1]);
  near(mean.y, [4, 4.25, 10 / 3, 8 / 3, 2.5, 2, 1.25, 0]);
  const lows = [2.6162245450417565, 1.1037642968227226, 1.2579311441248349, 1.3789655720624174];
  near(mean.lows, [NaN, NaN, ...lows, NaN, NaN]); // Two runs have no interval.
  near(mean.highs.map((high, i) => high + mean.lows[i]), mean.y.map((y, i) => (mean.counts[i] > 2 ? 2 * y : NaN)));
});

test("the mean uses the repeated part of a restarted curve, and ignores NaN", () => {
  const { x, y, counts } = meanOf([{ x: [0, 1, 2, 1, 2, 3], y: [9, 9, 9, 5, NaN, 3] }]);
  deepEqual([x, y, counts], [[0, 1, 3], [9, 5, 3], [1, 1, 1]]);
  deepEqual(meanOf([]).x, []);
});

test("each group is a line of one colour, labelled with its number of runs", () => {
  const groups = /** @type {any} */ ([
    { label: "a", run_ids: [9, 1] }, { label: "empty", run_ids: [3] }, { label: "b", run_ids: [2] },
  ]);
  const results = /** @type {any} */ ([1, 2, 3, 9].map((run_id) => ({ run_id })));
  const lines = toGroupLines(groups, results, [CURVES[0], CURVES[1], { x: [], y: [] }, CURVES[2]], {}, styleOf);
  deepEqual(lines.map(({ name, colour, keys, behind }) => [name, colour, keys, behind]), [
    ["a (2 runs)", "--series-1", [1, 9], [CURVES[0], CURVES[2]]],
    ["b (1 run)", "--series-2", [2], [CURVES[1]]],
  ]);
  equal(toCsv([lines[1]], {}).split("\r\n")[1], "b (1 run),0.5,5,,,1");
});

test("runs are smoothed before the mean is computed", () => {
  const groups = /** @type {any} */ ([{ label: "a", run_ids: [1, 2] }]);
  const results = /** @type {any} */ ([{ run_id: 1 }, { run_id: 2 }]);
  const curves = [{ x: [0, 4], y: [0, 3] }, { x: [0, 4], y: [2, 5] }];
  // With a half-life of 4: (3 + 0 / 2) / (1 + 1 / 2) = 2, and (5 + 2 / 2) / (1 + 1 / 2) = 4.
  near(toGroupLines(groups, results, curves, { smoothing: 1 }, styleOf)[0].y, [1, 3]);
});
