// The plan of a benchmark set: a row for each run, with its result, and for each slot without one.

import { optionTitle } from "../compare/answer.js";
import { resultColumns } from "../compare/results.js";
import { h, reconcile, setText } from "../dom.js";
import { NONE } from "../format.js";
import { badge, figure, runBadge } from "../ui.js";

/**
 * @import { Result, Schemas } from "../records.js"
 * @import { Column } from "../table.js"
 *
 * A run of a slot; without one, the slot is open.
 * @typedef {{ slot: Schemas["Slot"], trial: Schemas["Trial"] | null, result: Result | undefined }} Row
 */

// The figures that the plan has of each result.
const FIGURES = ["training", "best", "rate", "contention"];

/** @returns {string} the progress of a set in a sentence, in the words of these pages */
export function progressText(/** @type {Pick<Schemas["RunSet"], "text">} */ { text }) {
  return text.replace(/(\d+) disturbed/, "$1 with CPU contention");
}

/** @returns {Row[]} a row for each run of the set, and for each slot that has none */
export function rowsOf(/** @type {Schemas["RunSet"]} */ { slots }, /** @type {Result[]} */ results) {
  const byId = new Map(results.map((result) => [result.run_id, result]));
  return slots.flatMap((slot) => {
    const rows = slot.trials.map((trial) => ({ slot, trial, result: byId.get(trial.run_id) }));
    return slot.is_open || !rows.length ? [...rows, { slot, trial: null, result: undefined }] : rows;
  });
}

/** @returns {Column<Row>[]} the columns of the plan */
export function columnsOf(/** @type {Row[]} */ rows) {
  const keys = [...new Set(rows.flatMap(({ slot }) => Object.keys(slot.swept)))];
  const results = rows.map(({ result }) => result).filter(Boolean);
  return [
    figure("Slot", ({ slot }) => String(slot.number)),
    { title: "Run", isHead: true, fill: fillRun },
    { title: "Outcome", fill: fillOutcome },
    ...keys.map((key) => figure(optionTitle(key), ({ slot }) => slot.swept[key] ?? "")),
    figure("Workers", ({ slot }) => String(slot.num_workers)),
    figure("Seed", ({ slot, trial }) => String((trial ?? slot).seed ?? "")),
    ...resultColumns(results, () => undefined).filter(({ id }) => FIGURES.includes(id)).map(ofRow),
    { title: "Remark", text: ({ trial }) => remarkOf(trial) },
  ];
}

/** @returns {Column<Row>} a column of results for rows, some of which have none. */
function ofRow(/** @type {Column<Result>} */ column) {
  const fill = (cell, /** @type {Row} */ { result }) => {
    if (result && column.fill) column.fill(cell, result);
    else setText(cell, result ? column.text(result) : NONE);
  };
  return { ...column, make: undefined, text: undefined, fill };
}

function remarkOf(/** @type {Row["trial"]} */ trial) {
  if (!trial || (trial.counts && !trial.remark)) return "";
  if (trial.remark === "disturbed") return "CPU contention";
  return trial.counts ? trial.remark : `does not count${trial.remark ? `: ${trial.remark}` : ""}`;
}

function fillRun(/** @type {Element} */ cell, /** @type {Row} */ { trial }) {
  if (!trial) return setText(cell, NONE);
  const name = `#${trial.run_id}`;
  reconcile(cell, [`${name} ${trial.deleted}`], String, () => (trial.deleted ? h("span", { class: "soft" }, `${name}, deleted`) : h("a", { href: `/runs/${trial.run_id}` }, name)));
}

function fillOutcome(/** @type {Element} */ cell, /** @type {Row} */ { trial, result }) {
  if (!trial) return setText(cell, "open");
  const outcome = result?.outcome ?? undefined;
  reconcile(cell, [`${outcome?.title} ${trial.state}`], String, () => (outcome ? runBadge({ state: trial.state, outcome }) : badge(trial.state)));
}
