import { deepEqual } from "node:assert/strict";
import { mock, test } from "node:test";

import "./browser.js";
import { followAlerts, headlineOf } from "../../../master/mlbench_master/web/static/js/alerts.js";

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

test("all parts of a page share one request, and later subscribers get the last response", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const requests = [];
  globalThis.fetch = async (/** @type {any} */ path) => {
    requests.push(path);
    return new Response('{"message": "away"}', { status: 502 });
  };
  const told = [];
  await new Promise((resolve) => {
    followAlerts(() => told.push("shown"), () => told.push("first"));
    followAlerts(() => told.push("shown"), () => resolve(told.push("second")));
  });
  followAlerts(() => told.push("shown"), () => told.push("late"));
  deepEqual([requests, told], [["/api/alerts/"], ["first", "second", "late"]]);
});
