import { deepEqual } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { toLines } from "../../../master/mlbench_master/web/static/js/set/parallel.js";

test("a run with a figure is a line over the axes, the better the less time it took", () => {
  const axes = [{ key: "exchange", values: ["flat", "topk"] }];
  const points = [
    { run_id: 1, name: "exchange flat", values: ["flat"], figure: 30 },
    { run_id: 2, name: "exchange topk", values: ["topk"], figure: 10 },
    { run_id: 3, name: "exchange topk", values: ["topk"], figure: null },
  ];
  deepEqual(toLines(/** @type {any} */ ({ axes, points, unit: "s", is_less_better: true })), [
    { name: "run 1: exchange flat, 30 s", heights: [0, 1], good: 0 },
    { name: "run 2: exchange topk, 10 s", heights: [1, 0], good: 1 },
  ]);
});
