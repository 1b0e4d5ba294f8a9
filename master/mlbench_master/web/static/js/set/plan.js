// The plan of a benchmark set: a row for each run, with its result, and for each slot without one.

import { h, reconcile, setText } from "../dom.js";
import { NONE, alignedDurations, alignedNumbers, isPercent, metricTitle, percent } from "../format.js";
import { badge, figure, runBadge } from "../ui.js";
import { optionTitle } from "./answer.js";

/**
 * @import { Result, Schemas } from "../records.js"
 *
 * A run of a slot; without one, the slot is open.
 * @typedef {{ slot: Schemas["Slot"], trial: Schemas["Trial"] | null, result: Result | undefined }} Row
 */

const CONTENTION_HINT = "Share of training time that other programs held the core of the most affected rank; above 5 %, it may distort the result";

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

/** @returns {import("../ui.js").Column<Row>[]} the columns of the plan */
export function columnsOf(/** @type {Row[]} */ rows) {
  const keys = [...new Set(rows.flatMap(({ slot }) => Object.keys(slot.swept)))];
  const results = rows.map(({ result }) => result).filter(Boolean);
  const times = alignedDurations(results.map((result) => result.time_to_target?.training_seconds));
  const best = alignedNumbers(results.map((result) => result.best_value));
  const rates = alignedNumbers(results.map((result) => result.samples_per_second));
  const metrics = [...new Set(results.map(({ target }) => target?.metric).filter(Boolean))];
  const suffix = metrics.length === 1 && isPercent(metrics[0]) ? " %" : "";
  const valueOf = (write, value, unit = "") => (value == null ? NONE : write(value) + unit);
  return [
    figure("Slot", ({ slot }) => String(slot.number)),
    { title: "Run", isHead: true, fill: fillRun },
    { title: "Outcome", fill: fillOutcome },
    ...keys.map((key) => figure(optionTitle(key), ({ slot }) => slot.swept[key] ?? "")),
    figure("Workers", ({ slot }) => String(slot.num_workers)),
    figure("Seed", ({ slot, trial }) => String((trial ?? slot).seed ?? "")),
    figure("Time to target", ({ result }) => valueOf(times, result?.time_to_target?.training_seconds), "Training time until the target was first reached, evaluation excluded"),
    figure(metrics.length === 1 ? `Best ${metricTitle(metrics[0]).toLowerCase()}` : "Best", ({ result }) => valueOf(best, result?.best_value, suffix), metrics.join(", ")),
    figure("Samples/s", ({ result }) => valueOf(rates, result?.samples_per_second)),
    figure("CPU contention", ({ result }) => percent(result?.contention_share), CONTENTION_HINT),
    { title: "Remark", text: ({ trial }) => remarkOf(trial) },
  ];
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
