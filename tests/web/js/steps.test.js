import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { edgesOf, stackOf } from "../../../master/mlbench_master/web/static/js/run/breakdown.js";
import { lanesOf, levelOf, levelsOf, singleSteps, summariesOf } from "../../../master/mlbench_master/web/static/js/run/step-lanes.js";

// Totals of a rank at 0, 1, 2, … seconds.
const total = (/** @type {number[]} */ values) => at(values.map((_, i) => i), values);
const at = (/** @type {number[]} */ seconds, /** @type {number[]} */ values) => ({ times: seconds.map((second) => 1000 * second), values, lows: values, highs: values });

const SERIES = new Map([
  ["step", new Map([[2, total([0, 10, 20, 20, 30])], [0, total([0, 10, 20, 30, 0])]])],
  ["train_seconds", new Map([[0, total([0, 1, 2, 3, 0])], [2, total([0, 0.5, 2.5, 2.5, 4.5])]])],
  ["communication_seconds", new Map([[0, total([0, 0.75, 1.5, 2, 0])], [2, total([0, 0.25, 0.5, 0.5, 1.5])]])],
]);

test("a bin has the seconds of each rank, or zero without a step and at a restart", () => {
  const { ranks, edges, bin, work, waiting } = lanesOf(SERIES, 99);
  deepEqual([ranks, edges, bin], [[0, 2], [0, 1000, 2000, 3000, 4000], 1]);
  deepEqual(work, [[0.25, 0.25, 0.5, 0], [0.25, 1.75, 0, 1]]);
  deepEqual(waiting, [[0.5, 0.5, 0.5, 0], [0, 0, 0, 1]]);
  deepEqual(lanesOf(SERIES, 99).times, [[0.025, 0.025, 0.05, NaN], [0.025, 0.175, NaN, 0.1]]);
  deepEqual(lanesOf(SERIES, 2).times, [[0.025, NaN], [0.1, 0.1]]);
  deepEqual(lanesOf(new Map(), 9).ranks, []);
  deepEqual(lanesOf(SERIES, 99, [1000, 3000]).edges, [1000, 2000, 3000]);
});

test("the bins of a rank add up to its totals, for any number of bins", () => {
  const seconds = Array.from({ length: 60 }, (_, i) => i * 0.9);
  const waited = seconds.map((value, i) => value * (i < 30 ? 0.5 : 0.25) + (i < 30 ? 0 : 6.75));
  const series = new Map([
    ["step", new Map([[0, total(seconds.map((value) => Math.round(value / 0.03)))]])],
    ["train_seconds", new Map([[0, total(seconds)]])],
    ["communication_seconds", new Map([[0, total(waited)]])],
  ]);
  for (const columns of [7, 30, 500]) {
    const { work, exchange } = lanesOf(series, columns);
    const sums = [work, exchange].map(([row]) => row.reduce((sum, value) => sum + value, 0).toFixed(6));
    deepEqual(sums, [(seconds.at(-1) - waited.at(-1)).toFixed(6), waited.at(-1).toFixed(6)]);
  }
});

test("a rank has a median step, a longest step, and a share of waiting", () => {
  const [first, second] = summariesOf(lanesOf(SERIES, 99));
  deepEqual(first, { rank: 0, median: 0.025, longest: 0.05, bin: 2, waiting: 0.5 });
  deepEqual([second.longest, second.bin, second.waiting], [0.175, 1, 1 / 4.5]);
  const [, ofTwo] = summariesOf(lanesOf(SERIES, 99, [0, 2000]));
  deepEqual(ofTwo.median.toFixed(6), "0.100000", "the mean of the two in the middle");
});

test("a single step has a begin, an end, and its wait beyond the least communication of a rank", () => {
  const series = new Map([
    ["step", new Map([[0, at([1, 1.1, 1.2, 1.4], [5, 6, 7, 9])], [1, at([1, 1.1, 1.2], [5, 6, 7])]])],
    ["sampled_communication_seconds", new Map([[0, at([1.1, 1.2], [0.06, 0.05])], [1, at([1.1], [0.01])]])],
    ["communication_seconds", new Map([[1, at([1, 2], [0, 0.2])]])],
    ["train_seconds", new Map()],
  ]);
  const [first, second] = singleSteps(series, [0, 1]);
  deepEqual(first.map(({ number, begin, end }) => [number, begin, end]), [[6, 1000, 1100], [7, 1100, 1200]]);
  deepEqual(first.map(({ exchange, isMean }) => [exchange, isMean]), [[0.06, false], [0.05, false]]);
  deepEqual(second.map(({ exchange, isMean }) => [exchange.toFixed(3), isMean]), [["0.010", false], ["0.020", true]]);
  deepEqual(first.map(({ waiting }) => waiting.toFixed(3)), ["0.050", "0.030"]);
});

test("an evaluation between two steps is not part of the next step", () => {
  const series = new Map([
    ["step", new Map([[0, at([1, 1.1, 1.8, 1.9], [1, 2, 3, 4])]])],
    ["train_seconds", new Map([[0, at([1.05, 1.75], [0.5, 0.6])]])],
  ]);
  deepEqual(singleSteps(series, [0])[0].map(({ begin, end }) => Math.round(end - begin)), [100, 100, 100]);
});

test("summarised steps are not shown as single steps", () => {
  const steps = { times: [0, 1000, 2000], values: [1, 2, 3], lows: [1, 1, 3], highs: [1, 3, 3] };
  deepEqual(singleSteps(new Map([["step", new Map([[0, steps]])]]), [0]), [[]]);
});

test("the scale shows one slow rank of many, and ignores a single long step", () => {
  const most = Array.from({ length: 199 }, () => 1);
  const levels = levelsOf([most, [1.5, NaN]]);
  deepEqual([levels.length, levels[0], levelOf(1, levels), levelOf(1.5, levels)], [7, 1, 0, 6]);
  const scale = levelsOf([most, [500]]);
  deepEqual([1, 1.5, 2, 500].map((value) => levelOf(value, scale)), [0, 3, 6, 6]);
  deepEqual([levelsOf([[3, 3]]), levelOf(3, [3])], [[3], 0]);
});

test("buckets are stacked upwards, and discarded time downwards", () => {
  const breakdown = { begin_seconds: -1, bin_seconds: 2, seconds: { compute: [4, 2], lost: [0, 2], start: [0, 1] }, attempts: [0], discarded: [] };
  deepEqual(edgesOf(breakdown), [-1, 1, 3]);
  const stack = stackOf(breakdown, ["start", "compute", "lost", "idle"]);
  deepEqual(stack.map(({ bucket, to }) => [bucket, to]), [["start", [0, 0.5]], ["compute", [2, 1.5]], ["lost", [-0, -1]]]);
  equal(edgesOf({ ...breakdown, seconds: {} }).length, 0);
});
