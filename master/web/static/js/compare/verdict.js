// Says in words whether runs can be compared, and which is the fastest. Pure.

import { metric, number } from "../format.js";
import { durations } from "./columns.js";

const SENTENCES = {
  yes: "These runs can be compared",
  no: "These runs cannot be compared",
  unknown: "Whether these runs can be compared is not known",
};
const REASONS = {
  yes: "They have the same data, goal and batch size, as far as they state them.",
  no: "They differ in what a result depends on:",
  unknown: "Not all of them state what a result depends on:",
};

/**
 * @returns {{ answer: string, title: string, text: string, reasons: string[], notes: string[] }}
 * the answer (yes, no, unknown, or alone for a single run), the same in words, why, and what else
 * is to be known
 */
export function toVerdict(/** @type {object} */ comparison) {
  const notes = [fastest(comparison), ...departures(comparison.results)].filter(Boolean);
  if (comparison.results.length === 1) {
    const text = "Add a second run above to see them side by side.";
    return { answer: "alone", title: "Two runs make a comparison", text, reasons: [], notes };
  }
  const answer = comparison.comparable;
  const reasons = ["yes", "unknown"].flatMap((breaks) =>
    comparison.differences.filter((one) => one.breaks === breaks).map((one) => one.text),
  );
  return { answer, title: SENTENCES[answer], text: REASONS[answer], reasons, notes };
}

/** @returns {string} a goal, such as `val_global_Prec@1 ≥ 97 %`. */
export function goalText(/** @type {object} */ target) {
  const sign = target.lower_is_better ? "≤" : "≥";
  return `${target.metric} ${sign} ${metric(target.metric, target.value)}`;
}

/** @returns {string} which group was how much faster than the slowest; empty where none was. */
export function fastest(/** @type {object} */ comparison) {
  const timed = comparison.groups
    .map((group) => ({ group, seconds: group.training_seconds_to_accuracy?.mean }))
    .filter(({ seconds }) => seconds != null)
    .sort((a, b) => a.seconds - b.seconds);
  const goals = new Set(comparison.results.map((one) => one.target && goalText(one.target)));
  if (comparison.comparable === "no" || timed.length < 2 || goals.size > 1) return "";
  const [first, last] = [timed[0], timed.at(-1)];
  const write = durations([first.seconds]);
  const times = number(last.seconds / first.seconds, 3);
  return (
    `Fastest: ${first.group.label} reached ${[...goals][0]} after ${write(first.seconds)} of ` +
    `training, ${times} times as fast as ${last.group.label}.`
  );
}

function departures(results) {
  const texts = new Set(results.flatMap((result) => result.departures));
  return [...texts].map((text) => {
    const runs = results.filter((one) => one.departures.includes(text)).map((one) => one.run_id);
    return `${runs.length > 1 ? "Runs" : "Run"} ${runs.join(", ")}: ${text}`;
  });
}
