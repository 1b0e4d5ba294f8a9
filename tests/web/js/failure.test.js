import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { failureOf, whose } from "../../../master/mlbench_master/web/static/js/run/events.js";

const frame = { function: "main", file: "train.py", line: 1 };

test("ranks are named at branches of the stack tree", () => {
  const line = (depth, here, elsewhere) => whose({ depth, frame, here, elsewhere });
  deepEqual(
    [line(0, [0, 1, 2, 3], []), line(1, [0, 2, 3], [1]), line(1, [1], [0, 2, 3])],
    ["ranks 0–3", "ranks 0, 2–3, not rank 1", "rank 1, not ranks 0, 2–3"],
  );
  equal(line(2, [1], []), "");
});

const TRACEBACK = `rank 1 on worker-1 exited with code 1:
Traceback (most recent call last):
  File "/home/me/train.py", line 41, in main
    step(batch)
  File "/home/me/.venv/lib/python3.11/site-packages/torch/nn/module.py", line 7, in forward
    raise ValueError("no labels")
ValueError: no labels`;

test("a failure has a cause, a location and the last lines of its log", () => {
  const crash = { state: "FAILED", reason: TRACEBACK, outcome: { kind: "crashed", rank: 1, step: null } };
  const { title, where, lines, rank } = failureOf(/** @type {any} */ (crash));
  deepEqual([title, where, rank], ["ValueError: no labels", "rank 1 on worker-1 exited with code 1 · train.py:41 in main", 1]);
  equal(lines.at(-1), "ValueError: no labels");
  const lost = failureOf(/** @type {any} */ ({ state: "FAILED", reason: "rank 0 is lost: no heartbeat", outcome: null }));
  deepEqual([lost.title, lost.where, lost.lines, lost.rank], ["rank 0 is lost: no heartbeat", "", [], 0]);
});

test("a hang has the step of its start, and a successful run has no failure", () => {
  const outcome = { kind: "hung", rank: null, step: 60 };
  const hang = failureOf(/** @type {any} */ ({ state: "FINISHED", reason: "stopped at its deadline of 120 s", outcome }));
  deepEqual([hang.title, hang.where, hang.rank], ["Hung at step 61", "stopped at its deadline of 120 s", null]);
  equal(failureOf(/** @type {any} */ ({ state: "FINISHED", reason: "", outcome: { kind: "reached" } })), null);
});
