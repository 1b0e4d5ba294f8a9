import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { outcomeOf } from "../../../master/mlbench_master/web/static/js/records.js";

const PERCENT = { metric: "val_global_Prec@1", value: 90, lower_is_better: false };
const PERPLEXITY = { metric: "val_global_Perplexity", value: 50, lower_is_better: true };

function run(fields) {
  const none = { outcome: null, target: PERCENT, reason: "", waiting: "", not_finite: null, target_reached_at: null };
  return { ...none, stop_requested: false, state: "FINISHED", target_train_seconds: null, values: {}, ...fields };
}

function outcome(kind, more = {}) {
  return { kind, text: `${kind}, in a sentence`, title: kind, since: null, step: null, rank: null, ...more };
}

for (const [text, state, fields] of [
  ["90 % in 9.3 s", "reached", { outcome: outcome("reached"), target_train_seconds: 9.3 }],
  ["90 % reached", "reached", { outcome: outcome("reached") }],
  ["reached in 30 min 34 s", "reached", { outcome: outcome("reached"), target: PERPLEXITY, target_train_seconds: 1834 }],
  ["61.8 of 90 %", "not_reached", { outcome: outcome("not_reached"), values: { best: 61.84 } }],
  ["89.98 of 90 %", "not_reached", { outcome: outcome("not_reached"), values: { best: 89.98 } }],
  ["90 % not reached", "not_reached", { outcome: outcome("not_reached") }],
  ["NaN since step 1,061", "nan", { outcome: outcome("nan", { step: 1061 }), values: { best: 92 } }],
  ["NaN", "nan", { outcome: outcome("nan") }],
  ["hung · rank 1 at step 61", "hung", { outcome: outcome("hung", { rank: 1, step: 60 }) }],
  ["hung · at step 61", "hung", { outcome: outcome("hung", { step: 60 }) }],
  ["crashed · rank 1", "crashed", { state: "FAILED", outcome: outcome("crashed", { rank: 1 }) }],
  ["crashed", "crashed", { state: "FAILED", outcome: outcome("crashed") }],
  ["stopped · 12 of 90 %", "stopped", { state: "STOPPED", outcome: outcome("stopped"), values: { best: 12 } }],
  ["completed", "completed", { target: null, outcome: outcome("completed") }],
  ["failed", "failed", { state: "FAILED" }],
  ["queued", "initialized", { state: "INITIALIZED" }],
  ["running", "started", { state: "STARTED" }],
  ["running · 61 of 90 %", "started", { state: "STARTED", values: { best: 61 } }],
  ["stopping", "started", { state: "STARTED", stop_requested: true }],
  ["NaN since step 7", "nan", { state: "STARTED", not_finite: { metric: "loss", step: 7 } }],
  ["90 % in 5 s", "reached", { target_reached_at: "2026-11-29T12:00:00Z", target_train_seconds: 5 }],
  ["90 % in 5 s · running", "reached", { state: "STARTED", target_reached_at: "2026-11-29T12:00:00Z", target_train_seconds: 5 }],
])
  test(`the chip of a run says "${text}"`, () => {
    deepEqual(outcomeOf(run(fields)).slice(0, 2), [state, text]);
  });

test("the tooltip of a chip is the outcome as a sentence, or else the reason", () => {
  equal(outcomeOf(run({ outcome: outcome("hung"), reason: "late" }))[2], "hung, in a sentence");
  equal(outcomeOf(run({ state: "FAILED", reason: "rank 1 exited" }))[2], "rank 1 exited");
  equal(outcomeOf(run({ state: "INITIALIZED" }))[2], "waiting in the queue");
});
