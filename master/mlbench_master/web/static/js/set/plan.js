// The plan of a benchmark set: a row for each run, with its result, and for each slot without one.

import { resultColumns } from "../compare/results.js";
import { optionTitle } from "../compare/verdict.js";
import { h } from "../dom.js";
import { NONE, alignedNumbers, metricTitle, plural } from "../format.js";
import { isActive } from "../records.js";
import { meanWith } from "../runs/groups.js";
import { figure, runBadge } from "../ui.js";

/**
 * @import { Column } from "../table.js"
 *
 * A run of a slot, whose result is empty until it is known; without a run, the slot is open.
 * @typedef {{ slot: Slot, trial: Trial | null, result: Partial<Result> }} Row
 */

// The columns of results that the plan has.
const FIGURES = /^(Time to target \(training\)|Best.*|Samples\/s|CPU contention)$/;

/** @returns {string} the options that differ between the slots of a set. */
export function sweptIn(/** @type {Pick<RunSet, "slots">} */ { slots }) {
  const keys = new Set(slots.flatMap((slot) => Object.keys(slot.swept)));
  const isScaled = new Set(slots.map((slot) => slot.num_workers)).size > 1;
  return [...[...keys].map(optionTitle), ...(isScaled ? ["workers"] : [])].join(" × ");
}

/** @returns {[string, string]} the state of a set, also with the number of its slots that are done */
export function progressOf(/** @type {RunSet} */ { slots, state, progress }) {
  return [state, `${state} · ${progress.done} of ${plural(slots.length, "slot")} done`];
}

/** @returns {string} the number of slots in each state, such as `12 done, 1 failed` */
export const progressText = (/** @type {Pick<RunSet, "progress">} */ { progress }) =>
  Object.entries(progress).flatMap(([state, slots]) => (slots ? `${slots} ${state}` : [])).join(", ");

/** @returns {Row[]} a row for each run of the set, and for each slot that has none */
export function rowsOf(/** @type {RunSet} */ { slots }, /** @type {Result[]} */ results) {
  const byId = new Map(results.map((result) => [result.run_id, result]));
  return slots.flatMap((slot) => {
    const rows = slot.trials.map((trial) => ({ slot, trial, result: byId.get(trial.run_id) ?? {} }));
    return slot.is_open || !rows.length ? [...rows, { slot, trial: null, result: {} }] : rows;
  });
}

/** @returns {Column<Row>[]} the columns of the plan */
export function columnsOf(/** @type {Row[]} */ rows, /** @type {Result[]} */ results) {
  const keys = [...new Set(rows.flatMap(({ slot }) => Object.keys(slot.swept)))];
  const figures = resultColumns(results).filter(({ title }) => FIGURES.test(title));
  return [
    figure("Slot", ({ slot }) => String(slot.number)),
    { title: "Run", isHead: true, cell: makeLink },
    { title: "Outcome", cell: ({ trial, result }) => (trial ? runBadge({ ...trial, outcome: result.outcome }) : "open") },
    ...keys.map((key) => figure(optionTitle(key), ({ slot }) => slot.swept[key] ?? "")),
    figure("Workers", ({ slot }) => String(slot.num_workers)),
    figure("Seed", ({ slot, trial }) => String((trial ?? slot).seed ?? "")),
    ...figures.map(({ title, text, hint }) => figure(title, ({ result }) => text(result), hint)),
    { title: "Remark", text: ({ trial }) => remarkOf(trial) },
  ];
}

/** @returns {Column<LastValues>[]} the columns of the last values of each combination */
export function lastColumns(/** @type {LastValues[]} */ values) {
  const metrics = [...new Set(values.flatMap(({ means }) => Object.keys(means)))].sort();
  return [
    { title: "Combination", isHead: true, text: ({ name }) => optionTitle(name) },
    ...metrics.map((name) => {
      const write = alignedNumbers(values.map(({ means }) => means[name]?.mean));
      return { ...figure(metricTitle(name), undefined, name), cell: ({ means, runs }) => means[name] && meanWith(means[name], runs, write) };
    }),
  ];
}

/** @returns {string} why a run does not count, or how it counts */
export function remarkOf(/** @type {Row["trial"]} */ trial) {
  if (!trial || isActive(trial) || (trial.counts && !trial.remark)) return "";
  return trial.counts ? trial.remark : `does not count${trial.remark ? `: ${trial.remark}` : ""}`;
}

function makeLink(/** @type {Row} */ { trial }) {
  if (!trial || trial.deleted) return h("span", { class: "soft" }, trial ? `#${trial.run_id}, deleted` : NONE);
  return h("a", { href: `/runs/${trial.run_id}` }, `#${trial.run_id}`);
}
