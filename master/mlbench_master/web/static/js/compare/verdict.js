// The section at the top: whether the runs can be compared, and which is the fastest.

import { byId, setList, setText } from "../dom.js";
import { alignedDurations, goal, number } from "../format.js";

/** @import { Comparison } from "../records.js" */

export function showVerdict(/** @type {Comparison} */ comparison) {
  const { judgement } = comparison;
  byId("verdict").dataset.answer = judgement.sentence ? judgement.verdict : "alone";
  setText(byId("verdict-title"), judgement.title);
  setText(byId("verdict-text"), judgement.why);
  setList(byId("verdict-reasons"), judgement.reasons);
  setList(byId("verdict-notes"), toNotes(comparison));
}

/** @returns {string[]} further notes, the fastest group first */
export function toNotes(/** @type {Comparison} */ comparison) {
  const { learned_by, notes, disturbed, clock_faults, departures } = comparison.judgement;
  const ofRuns = [...disturbed, ...clock_faults, ...departures].map((text) => text[0].toUpperCase() + text.slice(1));
  return [fastest(comparison), learned_by, ...notes, ...ofRuns].filter(Boolean);
}

function fastest(/** @type {Comparison} */ { judgement, groups, results }) {
  if (!judgement.fastest) return "";
  const [first, last] = [judgement.fastest.group, judgement.fastest.slowest].map((i) => groups[i]);
  const { mean } = first.training_seconds_to_accuracy;
  const target = results.find((result) => result.target).target;
  return (
    `Fastest: ${first.label} reached ${goal(target)} after ${alignedDurations([mean])(mean)} of ` +
    `training, ${number(judgement.fastest.times_as_fast, 3)}x the speed of ${last.label}.`
  );
}
