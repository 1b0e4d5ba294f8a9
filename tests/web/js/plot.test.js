import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { isRound, partsOf, tick } from "../../../master/mlbench_master/web/static/js/plot.js";

const parts = (x, y, axes = {}) => partsOf({ x, y }, axes).map((part) => [part.x, part.y]);

test("a line whose steps go back is drawn in parts", () => {
  deepEqual(parts([1, 2, 3, 2, 3], [5, 4, 3, 4, 2]), [[[1, 2, 3], [5, 4, 3]], [[2, 3], [4, 2]]]);
});

test("no line connects two attempts", () => {
  const moments = [0, 1.5, 2, 9].map((x) => ({ x, text: "restart" }));
  deepEqual(parts([1, 2, 3], [5, NaN, 3], { moments }), [[[1], [5]], [[2, 3], [null, 3]]]);
});

test("values that an axis cannot show are left out", () => {
  deepEqual(parts([1, NaN, 2, 3], [5, 4, Infinity, 1e308]), [[[1, 2, 3], [5, null, null]]]);
  deepEqual(parts([0, 1, 2], [5, 0, 3], { xType: "log", yType: "log" }), [[[1, 2], [null, 3]]]);
});

for (const [value, text] of /** @type {[number, string][]} */ ([
  [0, "0"], [0.25, "0.25"], [-12_500, "-12.5K"], [3e9, "3B"], [1e-7, "1e-7"], [2.5e20, "2.5e+20"],
])) {
  test(`an axis formats ${value} as ${text}`, () => equal(tick(value), text));
}

test("a logarithmic axis does not write its lower end", () => {
  deepEqual([1e-5, 0.1, 300, 1.066e-6, 0.97].map(isRound), [true, true, true, false, false]);
});
