import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import * as series from "../../../master/mlbench_master/web/static/js/series.js";

const { append, areSame, byMetric, combine, counterAt } = series;
const { mean, rate, sum } = series;

/** Return a series; lows and highs default to the values. */
function of(/** @type {number[]} */ times, /** @type {number[]} */ values, columns = {}) {
  return { times, values, lows: values, highs: values, ...columns };
}

const EMPTY = of([], []);

test("points become columns", () => {
  const points = [
    { date: "1970-01-01T00:00:01.000000Z", value: "0.5", min: "0.25", max: "NaN" },
    { date: "1970-01-01T00:00:02.500000Z", value: "+Inf" },
    { date: "1970-01-01T00:00:03.000000Z", value: "-Inf" },
    { date: "1970-01-01T00:00:04.000000Z", value: "seven" },
    { date: "1970-01-01T00:00:05.000000Z", value: "" },
  ];
  deepEqual(series.toSeries(points), {
    times: [1000, 2500, 3000, 4000, 5000],
    values: [0.5, Infinity, -Infinity, NaN, NaN],
    lows: [0.25, Infinity, -Infinity, NaN, NaN],
    highs: [NaN, Infinity, -Infinity, NaN, NaN],
  });
});

test("two series are merged by time", () => {
  deepEqual(series.merged(of([1, 4], [10, 40]), of([2, 3], [20, 30])), of([1, 2, 3, 4], [10, 20, 30, 40]));
});

test("later points are appended", () => {
  const [first, second] = [of([1, 2, 3], [10, 20, 30]), of([2, 3, 4, 5], [0, 0, 40, 50])];
  deepEqual(append(first, second), of([1, 2, 3, 4, 5], [10, 20, 30, 40, 50]));
  deepEqual(append(first, of([3], [9])), first);
  deepEqual(append(EMPTY, first), first);
  deepEqual(append(first, EMPTY), first);
});

test("the rate of a counter is per second, even after a reset", () => {
  const counter = of([1000, 2000, 4000, 5000], [10, 20, 60, 5]);
  deepEqual(rate(counter), of([2000, 4000, 5000], [10, 20, 5]));
  deepEqual(rate(of([1], [1])), EMPTY);
});

test("names are split into metric and rank", () => {
  const names = ["train_loss @ 0", "epoch", "a @ b @ 12", "odd @ ", "two\nlines @ 3"];
  const metrics = byMetric(Object.fromEntries(names.map((name) => [name, []])));
  deepEqual([...metrics].map(([metric, ranks]) => [metric, ...ranks.keys()]), [
    ["train_loss", 0],
    ["epoch", null],
    ["a @ b", 12],
    ["odd @ ", null],
    ["two\nlines", 3],
  ]);
});

test("a response is grouped by metric and rank", () => {
  const point = { date: "1970-01-01T00:00:01.000000Z", value: "1" };
  const metrics = byMetric({ "loss @ 0": [point], "loss @ 1": [point, point], epoch: [] });
  const lengths = [...metrics].map(([metric, ranks]) => [
    metric,
    [...ranks].map(([rank, series]) => [rank, series.values.length]),
  ]);
  deepEqual(lengths, [["loss", [[0, 1], [1, 2]]], ["epoch", [[null, 0]]]]);
});

test("a clock is interpolated, and constant before a reset", () => {
  const clock = of([10, 20, 30, 40], [0, 5, 5, 2]);
  deepEqual(counterAt(clock, [5, 10, 16, 25, 36, 40, 99]), [NaN, 0, 3, 5, 5, 2, 2]);
});

test("a counter is interpolated by its lows", () => {
  const counter = of([10, 20, 30, 40], [0, 0, 0, 0], { lows: [100, 200, 5, 15] });
  const values = counterAt(counter, [5, 10, 15, 20, 25, 35, 99]);
  deepEqual(values, [NaN, 100, 150, 200, 200, 10, 15]);
});

test("series are combined at close times", () => {
  const first = of([0, 10, 20, 30], [1, 1, 1, 1]);
  // Slightly later, and without the last point.
  const second = of([1, 11], [3, 5], { lows: [2, 4], highs: [4, 9] });
  deepEqual(combine(first, [first, second], mean), {
    times: [0, 10, 20, 30],
    values: [2, 3, 3, 1],
    lows: [1, 1, 1, 1],
    highs: [4, 9, 9, 1],
  });
});

test("NaN is left out of combined series", () => {
  const grid = of([0, 10, 20], [1, 1, 1]);
  deepEqual(combine(grid, [of([0, 10, 20], [7, NaN, 9])], sum).values, [7, NaN, 9]);
});

for (const [columns, expected] of /** @type {[number[][], boolean][]} */ ([
  [[[1, 2], [1, 2]], true],
  [[[1, 2, 3], [1, 2]], true],
  [[[1, 2, 3, 4], [1, 2]], false],
  [[[1, 2], [1, 3]], false],
])) {
  test(`equality of ${JSON.stringify(columns)}: ${expected}`, () =>
    equal(areSame(columns.map((values) => of([...values.keys()], values))), expected));
}

test("points outside the time of the run are left out, unless all are outside", () => {
  const posted = of([0, 100_000, 104_000, 110_500, 200_000], [1, 2, 3, 4, 5]);
  const { series: inside, outside } = series.within(posted, 100_000, 110_000);
  deepEqual([inside.times, inside.values, outside], [[100_000, 104_000, 110_500], [2, 3, 4], 2]);
  const elsewhere = of([0, 1000], [1, 2]);
  deepEqual(series.within(elsewhere, 100_000, 110_000), { series: elsewhere, outside: 0 });
});
