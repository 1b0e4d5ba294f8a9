import { deepEqual } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { headlineOf } from "../../../master/mlbench_master/web/static/js/alerts.js";

for (const [text, ...parts] of [
  ["Run 3 (a) failed.", "Run 3 (a) failed", ""],
  ["Run 3 (a: b): rank 1 is 4.1 s late: it computes. See logs.", "Run 3 (a: b): rank 1 is 4.1 s late", "It computes. See logs."],
  ["Disk full: 0 B are free in /data.", "Disk full", "0 B are free in /data."],
  ["no full stop", "no full stop", ""],
  ["", "MLBenchRunFailed", ""],
])
  test(`the headline of "${text}" is "${parts[0]}"`, () => {
    deepEqual(headlineOf({ name: "MLBenchRunFailed", text }), parts);
  });
