// The times to target of runs or groups as bars, and the columns of their results.

import { sample } from "../chart.js";
import { h, reconcile, setText } from "../dom.js";
import { NONE, alignedDurations, alignedNumbers, count, duration, isPercent, metricTitle, percent, plural } from "../format.js";
import { sweptOf } from "../records.js";
import { figure, runBadge, setRunBadge } from "../ui.js";
import { shortLabels } from "./verdict.js";

/**
 * @import { Comparison, Result } from "../records.js"
 * @typedef {(id: number) => { colour?: string, dash?: "solid" | "dash" | "dot" }} StyleOf
 */

const TRAINING_HINT = "Training time until the target was first reached, evaluation excluded";
const WALL_HINT = "Time from the run's start until the target was first reached";
const AFTER_HINT = "Value of the last evaluation within that time";
const RATE_HINT = "Samples of all workers per second of training";
const WAITED_HINT = "Share of training time that other programs held the core of the most affected rank; above 5 %, it may distort the result";
export const SENT_HINT = "Mean bytes that a rank sends per step to exchange gradients or weights";
const SAVED_HINT = "Training time lost per checkpoint, and number of times the run resumed from one";
const COST_HINT = "Time for which the run held workers";

/**
 * @param {Pick<Comparison, "groups" | "results">} comparison
 * @param {number[]} visible the ids of the runs to show
 * @param {StyleOf} styleOf
 * @returns {{ bars: import("../bars.js").Bar[], keys: number[][], note: string }} a bar per run, the
 *   fastest first; or, if some group has several runs, a bar per group with the interval of its
 *   mean. None if no run reached its target.
 */
export function toBars({ groups, results }, visible, styleOf) {
  const shown = results.filter(({ run_id }) => visible.includes(run_id));
  const timeOf = (/** @type {Result} */ result) => (result.outcome?.kind === "nan" ? null : result.time_to_target);
  const hasTraining = shown.some((result) => timeOf(result)?.training_seconds != null);
  const clock = hasTraining ? "training_seconds" : "wall_seconds";
  const names = shortLabels(groups.map(({ label }) => label));
  const ofGroups = groups.map((group, i) => {
    const keys = group.run_ids.filter((id) => visible.includes(id));
    const { mean, mean_low: low, mean_high: high } = group[`${clock}_to_target`] ?? {};
    const name = group.reached < group.run_ids.length ? `${names[i]} (${group.reached} of ${group.run_ids.length} reached)` : names[i];
    return { keys, name, value: mean, low, high };
  });
  const titles = shortLabels(shown.map((result) => sweptOf(result) || result.display_name));
  const ofRuns = shown.map((result, i) => ({ keys: [result.run_id], name: `\u2068${titles[i]}\u2069 #${result.run_id}`, value: timeOf(result)?.[clock], low: null, high: null }));
  const isGrouped = groups.some((group) => group.run_ids.length > 1) && ofGroups.some(({ value }) => value != null);
  const entries = (isGrouped ? ofGroups : ofRuns).filter(({ keys }) => keys.length);
  if (!entries.some(({ value }) => value != null)) return { bars: [], keys: [], note: "" };
  const sorted = entries.toSorted((a, b) => (a.value ?? Infinity) - (b.value ?? Infinity));
  const write = alignedDurations(sorted.map(({ value }) => value));
  const bars = sorted.map(({ keys, name, value, low, high }) => ({
    name,
    text: value == null ? "not reached" : write(value),
    pieces: value == null ? [] : [{ name, value, colour: styleOf(keys[0]).colour }],
    low,
    high,
  }));
  const hasInterval = sorted.some(({ low }) => low != null);
  const note = [isGrouped ? `mean of each group${hasInterval ? ", 95 % interval" : ""}` : "", hasTraining ? "" : "wall clock"];
  return { bars, keys: sorted.map(({ keys }) => keys), note: note.filter(Boolean).join(", ") };
}

/** @returns {import("../ui.js").Column<Result>[]} the columns of a table of results */
export function columnsOf(/** @type {Result[]} */ results, /** @type {StyleOf} */ styleOf) {
  const limits = new Set(
    results.map((result) => result.accuracy_after_time?.limit_seconds).filter(Boolean),
  );
  const after = limits.size === 1 ? `After ${duration([...limits][0])}` : "After time";
  // A limit beyond the end of all runs says nothing that their last values do not.
  const isWithin = results.every((result) => result.accuracy_after_time?.value === result.last_value);
  const metrics = [...new Set(results.map(({ target }) => target?.metric).filter(Boolean))];
  const ofMetric = metrics.length === 1 ? metricTitle(metrics[0]).toLowerCase() : "";
  return withoutEmpty(results, [
    { title: "Run", isHead: true, fill: (cell, result) => fillName(cell, result, styleOf) },
    figure("Workers", (result) => count(result.num_workers)),
    { title: "Outcome", fill: fillState },
    seconds("Time to target (training)", results, "training_seconds", TRAINING_HINT),
    seconds("Time to target (wall clock)", results, "wall_seconds", WALL_HINT),
    ...(isWithin ? [] : [scores(after, results, (result) => result.accuracy_after_time?.value, AFTER_HINT)]),
    scores(ofMetric ? `Best ${ofMetric}` : "Best", results, (result) => result.best_value),
    scores(ofMetric ? `Last ${ofMetric}` : "Last", results, (result) => result.last_value),
    figures("Samples/s", results, (result) => result.samples_per_second, RATE_HINT),
    figures("Bytes per step", results, (result) => result.bytes_sent_per_step, SENT_HINT),
    figure("Checkpoints", (result) => checkpoints(result), SAVED_HINT),
    { title: "CPU contention", hint: WAITED_HINT, isFigure: true, fill: fillContention },
    figure("Epochs", (result) => count(result.epochs)),
    figures("Worker-seconds", results, (result) => result.cost?.worker_seconds, COST_HINT),
  ]);
}

/**
 * @template Row
 * @param {Row[]} rows
 * @param {import("../ui.js").Column<Row>[]} columns
 * @returns the columns in which a row has a value
 */
export function withoutEmpty(rows, columns) {
  return columns.filter(({ text }) => !text || rows.some((row) => text(row) !== NONE));
}

function seconds(title, results, clock, hint) {
  const write = alignedDurations(results.map((result) => result.time_to_target?.[clock]));
  const text = ({ target, time_to_target: reached }) =>
    target && !reached ? "not reached" : write(reached?.[clock]);
  return figure(title, text, hint);
}

function figures(title, results, valueOf, hint, unitOf = (_result) => "") {
  const write = alignedNumbers(results.map(valueOf));
  const text = (result) =>
    valueOf(result) == null ? NONE : write(valueOf(result)) + unitOf(result);
  return figure(title, text, hint);
}

function scores(title, results, valueOf, hint = undefined) {
  const unitOf = ({ target }) => (target && isPercent(target.metric) ? " %" : "");
  return figures(title, results, valueOf, hint, unitOf);
}

function fillContention(cell, /** @type {Result} */ { contention_share, disturbed }) {
  setText(cell, percent(contention_share, 1));
  cell.classList.toggle("warn-text", disturbed.length > 0);
}

function checkpoints(/** @type {Result} */ { checkpoints: saved, resumptions }) {
  const times = resumptions.length ? `, ${plural(resumptions.length, "resumption")}` : "";
  return (saved ? `${count(saved.count)} × ${duration(saved.seconds)}` : NONE) + times;
}

function fillName(cell, /** @type {Result} */ result, /** @type {StyleOf} */ styleOf) {
  const style = styleOf(result.run_id) ?? {};
  const make = () => h("a", { href: `/runs/${result.run_id}`, class: "run-name" }, sample(style), h("bdi"), h("span", {}, ` #${result.run_id}`));
  reconcile(cell, [`${style.colour} ${style.dash}`], String, make, (link) => setText(link.querySelector("bdi"), sweptOf(result) || result.display_name));
}

function fillState(cell, result) {
  if (cell.firstElementChild) setRunBadge(cell.firstElementChild, result);
  else cell.append(runBadge(result));
}
