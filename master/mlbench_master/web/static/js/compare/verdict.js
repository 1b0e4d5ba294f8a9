// The section at the top: whether the runs can be compared, and which is the fastest.

import { byId, setList, setText } from "../dom.js";
import { alignedDurations, targetText, number } from "../format.js";

/** @import { Comparison } from "../records.js" */

export function showVerdict(/** @type {Comparison} */ comparison) {
  const { findings } = comparison;
  byId("verdict").dataset.answer = findings.sentence ? findings.verdict : "alone";
  setText(byId("verdict-title"), findings.title);
  setText(byId("verdict-text"), findings.why);
  setList(byId("verdict-reasons"), findings.reasons);
  setList(byId("verdict-notes"), toNotes(comparison));
}

/** @returns {string[]} further notes, the fastest group first */
export function toNotes(/** @type {Comparison} */ comparison) {
  const { learned_by, notes, disturbed, clock_faults, rule_violations } = comparison.findings;
  const ofRuns = [...disturbed, ...clock_faults, ...rule_violations].map((text) => text[0].toUpperCase() + text.slice(1));
  return [fastest(comparison), learned_by, ...notes, ...ofRuns].filter(Boolean);
}

function fastest(/** @type {Comparison} */ { findings, groups, results }) {
  if (!findings.fastest) return "";
  const [first, last] = [findings.fastest.group, findings.fastest.slowest].map((i) => groups[i]);
  const { mean } = first.training_seconds_to_target;
  const target = results.find((result) => result.target).target;
  return (
    `Fastest: ${first.label} reached ${targetText(target)} after ${alignedDurations([mean])(mean)} of ` +
    `training, ${number(findings.fastest.times_faster, 3)}x the speed of ${last.label}.`
  );
}
