import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { extentOf, smooth } from "../../../master/mlbench_master/web/static/js/plot.js";

const near = (values, expected) => {
  equal(values.length, expected.length);
  values.forEach((y, i) => ok(Object.is(y, expected[i]) || Math.abs(y - expected[i]) < 1e-12, `${y} at ${i}`));
};

test("the weight of a value halves with each half-life", () => {
  // In Python: sum(y * 2 ** ((x - last) / 2)) / sum(2 ** ((x - last) / 2)) over the values so far.
  const [x, y] = [[0, 1, 2, 4, 10, 10.5], [1, 2, 6, 3, -1, 0.25]];
  const expected = [1, 1.585786437626905, 3.585786437626905, 3.3073117194445945, -0.1032204392352119, 0.06807904845009119];
  near(smooth(x, y, 2), expected);
  near(smooth(x.map(Math.exp), y, 2, true), expected);
});

test("smoothing skips gaps and starts again where a line goes back", () => {
  near(smooth([0, 1, 2, 3], [4, null, NaN, 0], 3), [4, NaN, NaN, 4 / 3]);
  near(smooth([5, 6, 5, 6], [8, 8, 2, 2], 1), [8, 8, 2, 2]);
});

test("the extent covers the finite numbers that the axis can show", () => {
  deepEqual(extentOf([[3, NaN], [-1, 0, 2, Infinity]]), [-1, 3]);
  deepEqual(extentOf([[-1, 0, 2, 5]], true), [2, 5]);
});
