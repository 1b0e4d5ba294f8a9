// The section "Time to target": a table of the runs, and bars of runs or groups.

import { showBars } from "../bars.js";
import { sample } from "../chart.js";
import { byId, h, reconcile, setText } from "../dom.js";
import { NONE, alignedDurations, alignedNumbers, count, duration, isPercent, percent, plural } from "../format.js";
import { styleOfRun } from "../plot.js";
import { labelOf } from "../records.js";
import { figure, fillTable, runBadge, setRunBadge } from "../ui.js";

/** @import { Comparison, Result } from "../records.js" */

const TRAINING_HINT = "Training time until the target was first reached, evaluation excluded";
const WALL_HINT = "Time from the run's start until the target was first reached";
const AFTER_HINT = "Value of the last evaluation within that time";
const RATE_HINT = "Samples of all workers per second of training";
const WAITED_HINT = "Share of training time that other programs held the core of the most affected rank";
export const SENT_HINT = "Mean bytes that a rank sends per step to exchange gradients or weights";
const SAVED_HINT = "Training time lost per checkpoint, and number of times the run resumed from one";
const COST_HINT = "Time for which the run held workers";

export class Times {
  #place = byId("times-bars");

  show(/** @type {Comparison} */ comparison) {
    const { results } = comparison;
    fillTable(byId("times-table"), columnsOf(results), results, (result) => result.run_id);
    const { bars, note } = toBars(comparison);
    setText(byId("times-note"), note);
    this.#place.hidden = bars.length === 0;
    if (bars.length) showBars(this.#place, bars);
  }
}

/**
 * @param {Comparison} comparison
 * @returns {{ bars: import("../bars.js").Bar[], note: string }} a bar per run; or, if some group has
 *   several runs, a bar per group with whiskers
 */
export function toBars({ groups, results }) {
  const hasTraining = results.some((result) => result.time_to_target?.training_seconds != null);
  const clock = hasTraining ? "training_seconds" : "wall_seconds";
  const title = hasTraining ? "Time to target (training)" : "Time to target (wall clock)";
  const ofGroups = groups.map((group) => groupBar(group, clock));
  const ids = results.map((result) => result.run_id);
  const isReached = (bar) => bar.pieces.length > 0;
  const isGrouped = groups.some((group) => group.run_ids.length > 1) && ofGroups.some(isReached);
  const bars = isGrouped ? ofGroups : results.map((result) => runBar(result, clock, ids));
  if (!bars.some(isReached)) return { bars: [], note: "No run reached its target." };
  const what = isGrouped ? ": mean of each group, with a range from the fastest to the slowest run" : "";
  return { bars, note: `${title}${what}. Shorter is better.` };
}

function toBar(name, value, colour, low = null, high = null) {
  const pieces = value == null ? [] : [{ name, value, colour }];
  return { name, text: duration(value), pieces, low, high };
}

function groupBar(group, clock) {
  const times = group[`${clock}_to_target`];
  const [reached, runs] = [group.reached, group.run_ids.length];
  const name = reached < runs ? `${group.label} (${reached} of ${runs} reached)` : group.label;
  // A group has a mean only if all of its runs reached the target.
  return toBar(name, times?.mean, "--series-0", times?.minimum, times?.maximum);
}

function runBar(result, clock, ids) {
  const value = result.time_to_target?.[clock];
  const name = value == null ? `${labelOf(result)} (not reached)` : labelOf(result);
  return toBar(name, value, styleOfRun(result.run_id, ids).colour);
}

function columnsOf(/** @type {Result[]} */ results) {
  const limits = new Set(
    results.map((result) => result.accuracy_after_time?.limit_seconds).filter(Boolean),
  );
  const after = limits.size === 1 ? `After ${duration([...limits][0])}` : "After time";
  const ids = results.map((result) => result.run_id);
  return [
    { title: "Run", isHead: true, fill: (cell, result) => fillName(cell, result, ids) },
    figure("Workers", (result) => count(result.num_workers)),
    { title: "Outcome", fill: fillState },
    seconds("Time to target (training)", results, "training_seconds", TRAINING_HINT),
    seconds("Time to target (wall clock)", results, "wall_seconds", WALL_HINT),
    scores(after, results, (result) => result.accuracy_after_time?.value, AFTER_HINT),
    scores("Best", results, (result) => result.best_value),
    scores("Last", results, (result) => result.last_value),
    figures("Samples/s", results, (result) => result.samples_per_second, RATE_HINT),
    figures("Bytes per step", results, (result) => result.bytes_sent_per_step, SENT_HINT),
    ...(results.some((result) => result.checkpoints)
      ? [figure("Checkpoints", (result) => checkpoints(result), SAVED_HINT)]
      : []),
    figure("CPU contention", waited, WAITED_HINT),
    figure("Epochs", (result) => count(result.epochs)),
    figures("Worker-seconds", results, (result) => result.cost?.worker_seconds, COST_HINT),
  ];
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

function waited(/** @type {Result} */ { contention_share, disturbed }) {
  return percent(contention_share, 1) + (disturbed.length ? ", disturbed" : "");
}

function checkpoints(/** @type {Result} */ { checkpoints: saved, resumptions }) {
  const times = resumptions.length ? `, ${plural(resumptions.length, "resumption")}` : "";
  return (saved ? `${count(saved.count)} × ${duration(saved.seconds)}` : NONE) + times;
}

function fillName(cell, result, ids) {
  const id = result.run_id;
  const make = () => h("a", { href: `/runs/${id}`, class: "run-link" }, sample(styleOfRun(id, ids)), h("span"));
  reconcile(cell, [`${id} ${ids.indexOf(id)}`], String, make, (link) => setText(link.lastElementChild, labelOf(result)));
}

function fillState(cell, result) {
  if (cell.firstElementChild) setRunBadge(cell.firstElementChild, result);
  else cell.append(runBadge(result));
}
