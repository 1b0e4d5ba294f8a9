// The section at the top: whether the runs can be compared, and which is the fastest.

import { byId, setList, setText } from "../dom.js";
import { alignedDurations, goal, number } from "../format.js";

/**
 * @typedef {import("../records.js").Comparison} Comparison
 * @typedef {import("../records.js").Result} Result
 */

const SENTENCES = {
  yes: "These runs can be compared",
  scaling: "These runs can be compared, but not by their number of workers",
  disturbed: "These runs can be compared, but not by times and rates",
  no: "These runs cannot be compared",
  unknown: "Whether these runs can be compared is not known",
};
const REASONS = {
  yes: "They have the same data, goal and batch size, as far as they state them.",
  scaling: "Speed-up and efficiency are not those of the workers alone:",
  disturbed: "Some were disturbed: others' programs had their cores for a part of the time.",
  no: "They differ in what a result depends on:",
  unknown: "Not all of them state what a result depends on:",
};

/** Show the verdict on a comparison. */
export function showVerdict(/** @type {Comparison} */ comparison) {
  const verdict = toVerdict(comparison);
  byId("verdict").dataset.answer = verdict.answer;
  setText(byId("verdict-title"), verdict.title);
  setText(byId("verdict-text"), verdict.text);
  setList(byId("verdict-reasons"), verdict.reasons);
  setList(byId("verdict-notes"), verdict.notes);
}

/**
 * @param {Comparison} comparison
 * @returns {{ answer: string, title: string, text: string, reasons: string[], notes: string[] }}
 *   the answer is yes, scaling, disturbed, no, unknown, or alone for a single run
 */
export function toVerdict(comparison) {
  const { groups, results, sets, sweep } = comparison;
  const evidence = sweep?.text ? [sweep.text] : groups.map((group) => group.evidence?.text);
  const disturbed = results.flatMap((one) => one.disturbed.map((t) => `Run ${one.run_id}: ${t}`));
  const said = [disturbed.length ? "" : fastest(comparison), learning(comparison), comparison.caution, ...sets, ...groups.flatMap(standing), ...evidence];
  const clocks = results.flatMap((one) => one.clock_faults.map((t) => `Run ${one.run_id}: ${t}`));
  said.push(...disturbed, ...clocks, ...violations(results));
  const notes = said.filter(Boolean);
  if (results.length === 1) {
    const text = "Add a second run above to see them side by side.";
    return { answer: "alone", title: "Two runs make a comparison", text, reasons: [], notes };
  }
  const reasons = ["yes", "unknown", "scaling"].flatMap((breaks) =>
    comparison.differences.filter((one) => one.breaks === breaks).map((one) => one.text),
  );
  reasons.push(...comparison.groups.map((group) => group.doubt).filter(Boolean));
  const doubt = reasons.length ? "scaling" : disturbed.length ? "disturbed" : "yes";
  const answer = comparison.comparable === "yes" ? doubt : comparison.comparable;
  return { answer, title: SENTENCES[answer], text: REASONS[answer], reasons, notes };
}

// The official score of a group, and whether it converged faster than its task's reference allows.
function standing(/** @type {Comparison["groups"][number]} */ { label, score, convergence }) {
  const texts = [score?.text, convergence?.is_too_fast && convergence.text];
  return texts.filter(Boolean).map((text) => `${label}: ${text}`);
}

// How much faster the fastest group was than the slowest.
function fastest(/** @type {Comparison} */ comparison) {
  const timed = comparison.groups
    .map((group) => ({ group, seconds: group.training_seconds_to_accuracy?.mean }))
    .filter(({ seconds }) => seconds != null)
    .sort((a, b) => a.seconds - b.seconds);
  const goals = new Set(comparison.results.map((one) => one.target && goal(one.target)));
  if (comparison.comparable === "no" || timed.length < 2 || goals.size > 1) return "";
  const [first, last] = [timed[0], timed.at(-1)];
  const seconds = alignedDurations([first.seconds])(first.seconds);
  const times = number(last.seconds / first.seconds, 3);
  return (
    `Fastest: ${first.group.label} reached ${[...goals][0]} after ${seconds} of ` +
    `training, ${times} times as fast as ${last.group.label}.`
  );
}

// The names of what differs and may have a part in learning: the table has their values.
function learning(/** @type {Comparison} */ { differences }) {
  const names = differences.filter((one) => one.breaks === "learning").map((one) => one.name);
  return names.length ? `What is learned may differ by: ${names.join(", ")}.` : "";
}

function violations(/** @type {Result[]} */ results) {
  const texts = new Set(results.flatMap((result) => result.departures));
  return [...texts].map((text) => {
    const runs = results.filter((one) => one.departures.includes(text)).map((one) => one.run_id);
    return `${runs.length > 1 ? "Runs" : "Run"} ${runs.join(", ")}: ${text}`;
  });
}
