import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";

import { extentOf, nearest, smooth, thin } from "../../../master/mlbench_master/web/static/js/lines.js";

const near = (values, expected) => {
  equal(values.length, expected.length);
  values.forEach((y, i) => ok(Object.is(y, expected[i]) || Math.abs(y - expected[i]) < 1e-12, `${y} at ${i}`));
};

test("a value that is a half-life further back weighs half as much", () => {
  // In Python: sum(y * 2 ** ((x - last) / 2)) / sum(2 ** ((x - last) / 2)) over the values so far.
  const [x, y] = [[0, 1, 2, 4, 10, 10.5], [1, 2, 6, 3, -1, 0.25]];
  const expected = [1, 1.585786437626905, 3.585786437626905, 3.3073117194445945, -0.1032204392352119, 0.06807904845009119];
  near(smooth(x, y, 2), expected);
  near(smooth(x.map(Math.exp), y, 2, true), expected);
});

test("smoothing steps over gaps, and begins anew where a line goes back", () => {
  near(smooth([0, 1, 2, 3], [4, null, NaN, 0], 3), [4, NaN, NaN, 4 / 3]);
  near(smooth([5, 6, 5, 6], [8, 8, 2, 2], 1), [8, 8, 2, 2]);
});

test("the extent is that of the finite numbers that the axis can show", () => {
  deepEqual(extentOf([[3, NaN], [-1, 0, 2, Infinity]]), [-1, 3]);
  deepEqual(extentOf([[-1, 0, 2, 5]], true), [2, 5]);
});

test("the nearest value is found beside gaps", () => {
  const at = (place, y = [1, 2, 3, 4]) => nearest([0, 1, 2, 9], y, place);
  deepEqual([-5, 0.4, 0.6, 5, 99].map((place) => at(place)), [0, 0, 1, 2, 3]);
  deepEqual([at(1, [1, null, 3, null]), at(9, [1, null, 3, null]), at(1, [null, null, null, null])], [0, 2, -1]);
});

const part = (x, y, more = {}) => ({ x, y, lows: y, highs: y, ...more });

test("of a column of pixels the smallest and the largest value stay, in their order", () => {
  const whole = part([0, 1, 2, 3, 4, 5, 6, 7], [1, 9, 0, 2, 3, 3, null, 5], { smooth: [0, 1, 2, 3, 4, 5, 6, 7] });
  const thinned = thin(whole, { from: 0, to: 8, pixels: 2, isLog: false });
  deepEqual(thinned, {
    x: [1, 3, 5, 6, 7],
    y: [9, 0, 3, null, 5],
    lows: [0, 0, 3, null, 3],
    highs: [9, 9, 5, null, 5],
    smooth: [0, 3, 4, null, 7],
  });
});

test("what is zoomed to goes on to the edges, on places that all lines share", () => {
  const x = Array.from({ length: 1000 }, (_, i) => 1 + i);
  const window = { from: 10, to: 100, pixels: 10, isLog: true };
  const [first, second] = [x, x.slice(3)].map((column) => thin(part(column, column), window));
  deepEqual(first.x, second.x);
  ok(first.x[0] < 10 && first.x.at(-1) > 100 && first.x.length < 26);
});
