import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { whose } from "../../../master/mlbench_master/web/static/js/run/diagnosis.js";

const frame = { function: "main", file: "train.py", line: 1 };

test("ranks are named where they part", () => {
  const line = (depth, here, elsewhere) => whose({ depth, frame, here, elsewhere });
  deepEqual(
    [line(0, [0, 1, 2, 3], []), line(1, [0, 2, 3], [1]), line(1, [1], [0, 2, 3])],
    ["ranks 0–3", "ranks 0, 2–3, not rank 1", "rank 1, not ranks 0, 2–3"],
  );
  equal(line(2, [1], []), "");
});
