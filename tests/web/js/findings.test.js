import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { findingsOf } from "../../../master/mlbench_master/web/static/js/run/findings.js";

const ALERT = { severity: "warning", text: "rank 1 uses 96 % of its memory", since: "", runbook: "docs/runbooks/x.md", run_id: 1 };

const RUN = /** @type {any} */ ({ delivery: { recorded: 10, in_prometheus: 8, record_only: 2 } });
const LATE = {
  rule: "straggler", severity: "warn", title: "Rank 1 held up the others", text: "It was 28.9 s late.",
  seconds: 57.8, saving: { seconds: 28.9, low: 27, high: 31 }, evidence: "ranks",
};

function resultOf(/** @type {object[]} */ ...findings) {
  return /** @type {any} */ ({ findings });
}

test("a healthy run and a run without a result have no findings", () => {
  deepEqual(findingsOf(RUN, resultOf()), []);
  deepEqual(findingsOf(/** @type {any} */ ({ delivery: null }), null), []);
});

test("a finding of the result has a saving and a link to its evidence", () => {
  const [finding] = findingsOf(RUN, resultOf(LATE));
  deepEqual([finding.title, finding.text, finding.badge], [LATE.title, LATE.text, "saves 28.9 s"]);
  deepEqual([finding.link, finding.evidence], ["Show ranks", "?tab=overview#worst-ranks"]);
  equal(findingsOf(RUN, resultOf({ ...LATE, saving: null }))[0].badge, "");
});

test("missing samples are a finding", () => {
  const [finding] = findingsOf(/** @type {any} */ ({ delivery: { recorded: 10, in_prometheus: 6, record_only: 2 } }), null);
  equal(finding.text, "2 of 10 samples. Grafana lacks them; pages and results do not.");
});

test("at most three findings are shown, errors first", () => {
  const all = [{ ...LATE, rule: "data" }, LATE, { ...LATE, rule: "nan", severity: "bad" }, { ...LATE, rule: "restarts" }];
  deepEqual(findingsOf(RUN, resultOf(...all)).map(({ kind }) => kind), ["nan", "data", "straggler"]);
});

test("an alert is a finding unless a rule for findings covers it", () => {
  const alerts = ["MLBenchMemoryNearLimit", "MLBenchLossNotFinite", "MLBenchStraggler"].map((name) => ({ ...ALERT, name }));
  const [finding, ...others] = findingsOf(RUN, resultOf(), /** @type {any} */ (alerts));
  deepEqual([finding.title, finding.link, finding.evidence, others], ["Alert: memory near limit", "What to do", "/docs/runbooks/x.md", []]);
});
