// The runs that are known, and which of them are shown. Pure.

import { isActive } from "../pieces.js";

/** The states of runs, in the order in which they come. */
export const STATES = ["INITIALIZED", "STARTED", "FINISHED", "FAILED", "STOPPED"];

/** @typedef {import("../records.js").Run} Run */

/** @returns {number} from which id on runs may be new or other than what is known. */
export function changedFrom(/** @type {Run[]} */ runs) {
  const oldestActive = runs.find(isActive);
  return (oldestActive ?? runs.at(-1))?.id ?? 0;
}

/**
 * @param {Run[]} known
 * @param {Run[]} answer all from an id on, as the API has them now
 * @param {number} fromId
 * @returns {Run[]} both together, the oldest first
 */
export function merge(known, answer, fromId) {
  return [...known.filter((run) => run.id < fromId), ...answer];
}

/**
 * @param {Run[]} runs the oldest first
 * @param {string} text that id, name, benchmark or state must have in it, each of its words
 * @param {string} state empty for all
 * @returns {Run[]} those that match, the newest first
 */
export function select(runs, text, state) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return runs
    .filter((run) => !state || run.state === state)
    .filter((run) => {
      const place = [run.id, run.name, code(run), run.state].join("\n").toLowerCase();
      return words.every((word) => place.includes(word));
    })
    .reverse();
}

/** @returns {Record<string, number>} how many runs there are of each state. */
export function countStates(/** @type {Run[]} */ runs) {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  for (const run of runs) counts[run.state] += 1;
  return counts;
}

/** @returns {string} what a run runs: a benchmark, or a command. */
export function code(/** @type {Run} */ run) {
  return run.benchmark || run.command;
}
