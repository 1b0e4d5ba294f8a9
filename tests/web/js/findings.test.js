import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { findingsOf } from "../../../master/mlbench_master/web/static/js/run/findings.js";

const ALERT = { severity: "warning", text: "rank 1 uses 96 % of its memory", since: "", runbook: "docs/runbooks/x.md", run_id: 1 };

// A run of two workers for 100 s each, in which nothing went wrong.
function healthyRun(fields = {}) {
  const delivery = { recorded: 10, in_prometheus: 8, record_only: 2 };
  const none = { not_finite: null, faults: null, max_bandwidth: null };
  return /** @type {any} */ ({ benchmark: "", num_workers: 2, attempt: 1, delivery, ...none, ...fields });
}

function healthyResult(seconds = {}, fields = {}) {
  const usual = { start: 2, initialization: 18, compute: 150, communication: 16, waiting: 6, contention: 2, teardown: 6 };
  const step = (rank) => ({ rank, compute_seconds: 0.05, training_seconds: 80 });
  const stragglers = { named: null, speedup_without: 1.03, text: "", ranks: [late(1, 2, 1.03), late(0, 1, 1.01)] };
  const none = { disturbed: [], interferences: [], contention_share: 0.01, resumptions: [] };
  const goodput = { share: 0.8, seconds: { ...usual, ...seconds } };
  return /** @type {any} */ ({ goodput, ranks: [step(0), step(1)], stragglers, ...none, ...fields });
}

function late(rank, seconds, speedup) {
  return { rank, seconds, parts: { data: 0, compute: seconds, checkpoint: 0 }, speedup_without: speedup };
}

test("a healthy run has no finding, nor has a run without a result", () => {
  deepEqual(findingsOf(healthyRun(), healthyResult()), []);
  deepEqual(findingsOf(healthyRun({ delivery: null }), null), []);
  // Ten seconds of imports are usual, and so is a large share of a short run.
  deepEqual(findingsOf(healthyRun(), healthyResult({ initialization: 9, compute: 2, communication: 1, waiting: 0 })), []);
  // Its benchmark is nothing but communication.
  const measured = healthyResult({ compute: 1, communication: 180 });
  deepEqual(findingsOf(healthyRun({ benchmark: "communication" }), measured), []);
});

const SLOW = {
  stragglers: { named: 1, speedup_without: 2.4, ranks: [late(1, 28.9, 2.4), late(0, 0, 1)] },
  ranks: [{ rank: 0, compute_seconds: 0.049 }, { rank: 1, compute_seconds: 0.118, training_seconds: 50 }],
};
const TAKEN = { rank: 1, disturbed: true, contention_share: 0.2, measured: { top: { python: 9, chromium: 2, sh: 1 } } };
const NAN = { metric: "train_loss", rank: "0", step: 61, since: "" };

for (const [kind, run, result, title, text, badge] of /** @type {[string, object, any, string, string, string][]} */ ([
  ["nan", { not_finite: NAN }, healthyResult({ diverged: 50 }), "The loss is NaN",
    "train_loss is not a number since step 61, rank 0. Training from there on cannot succeed.", "20 % wasted"],
  ["missing", { delivery: { recorded: 10, in_prometheus: 6, record_only: 2 } }, null, "Prometheus lacks samples",
    "2 of 10 samples. Grafana lacks them; pages and results do not.", ""],
  ["straggler", {}, healthyResult({ waiting: 30 }, SLOW), "Rank 1 held up the others",
    "28.9 s of 50 s, in compute: 118 ms a step, the others 49 ms.", "2.4× as fast without it"],
  ["contention", {}, healthyResult({}, { disturbed: ["rank 1"], interferences: [TAKEN], contention_share: 0.2 }), "CPU contention",
    "Other programs used cores of rank 1: python, chromium.", "up to 20 % of the time"],
  ["startup", {}, healthyResult({ initialization: 160 }), "47 % of the time was start-up",
    "Imports and initialization took 1 min 21 s of 2 min 51 s.", "1 min 21 s a run"],
  ["communication", { max_bandwidth: 20 }, healthyResult({ communication: 300 }), "Communication dominates the steps",
    "5 min 00 s of 7 min 38 s worker time in steps. The bandwidth is limited to 20 Mbit/s.", "66 % of step time"],
  ["restarts", { attempt: 3, faults: "kill:every=10s" }, healthyResult({ lost: 12, restart: 8 }, { resumptions: [{ discarded_steps: 40 }, { discarded_steps: 1 }] }),
    "2 planned restarts", "Faults were injected as planned (kill:every=10s), with 41 discarded steps.", "20 s worker time"],
]))
  test(`the finding "${title}" stands alone`, () => {
    const [finding, ...others] = findingsOf(healthyRun(run), result);
    deepEqual([finding.kind, finding.title, finding.text, finding.badge], [kind, title, text, badge]);
    deepEqual(others, []);
    equal(finding.evidence.startsWith("?tab="), true);
  });

test("errors come first, then the most expensive, at most three", () => {
  const all = healthyResult({ lost: 99, diverged: 0, waiting: 500, contention: 90 }, { ...SLOW, disturbed: ["rank 1"], interferences: [TAKEN] });
  const kinds = findingsOf(healthyRun({ not_finite: NAN, attempt: 2 }), all).map(({ kind }) => kind);
  deepEqual(kinds, ["straggler", "nan", "restarts"]);
});

test("start-up is no finding where a run broke off", () => {
  const slow = healthyResult({ initialization: 160 });
  for (const fields of [{ state: "FAILED" }, { outcome: { kind: "hung" } }])
    deepEqual(findingsOf(healthyRun(fields), slow), []);
});

test("an alert is a finding unless the page tells its problem already", () => {
  const alerts = ["MLBenchMemoryNearLimit", "MLBenchLossNotFinite", "MLBenchStraggler"].map((name) => ({ ...ALERT, name }));
  const [finding, ...others] = findingsOf(healthyRun(), healthyResult(), /** @type {any} */ (alerts));
  deepEqual([finding.title, finding.link, finding.evidence, others], ["Alert: memory near limit", "What to do", "/docs/runbooks/x.md", []]);
});
