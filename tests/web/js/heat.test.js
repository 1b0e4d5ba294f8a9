import { deepEqual } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { cellsOf, levelOf, scaleOf } from "../../../master/mlbench_master/web/static/js/run/heat.js";

// Totals of a rank at 0, 1, 2, … seconds.
const total = (/** @type {number[]} */ values) => ({ times: values.map((_, i) => 1000 * i), values, lows: values, highs: values });

const SERIES = new Map([
  ["step", new Map([[2, total([0, 10, 20, 20, 30])], [0, total([0, 10, 20, 30, 0])]])],
  ["train_seconds", new Map([[0, total([0, 1, 2, 3, 0])], [2, total([0, 0.5, 2.5, 2.5, 4.5])]])],
  ["communication_seconds", new Map([[0, total([0, 0.75, 1.5, 2, 0])]])],
]);

test("a cell has the seconds of a step of a rank; none where it made none, or began again", () => {
  const { ranks, edges, rows } = cellsOf(SERIES, 99, false);
  deepEqual([ranks, edges], [[0, 2], [0, 1000, 2000, 3000, 4000]]);
  deepEqual(rows, [[0.1, 0.1, 0.1, NaN], [0.05, 0.2, NaN, 0.2]]);
  deepEqual(cellsOf(SERIES, 2, false).rows, [[0.1, NaN], [0.125, 0.2]]);
  deepEqual(cellsOf(new Map(), 9, false).ranks, []);
});

test("without communication, ranks that have recorded none are blank", () => {
  deepEqual(cellsOf(SERIES, 99, true).rows, [[0.025, 0.025, 0.05, NaN], [NaN, NaN, NaN, NaN]]);
});

test("the scale shows one slow rank of many, and is not that of a single long step", () => {
  const most = Array.from({ length: 199 }, () => 1);
  deepEqual(scaleOf([most, [1.5, NaN]]), [1, 1.5]);
  const scale = scaleOf([most, [500]]);
  deepEqual([1, 1.5, 2, 500].map((value) => levelOf(value, scale)), [0, 3, 6, 6]);
  deepEqual(levelOf(3, [3, 3]), 0);
});
