// The results of runs and of groups: columns of tables, and the times to target as bars.

import { sample } from "../chart.js";
import { h, reconcile, setText } from "../dom.js";
import { NONE, alignedDurations, alignedNumbers, count, duration, isPercent, metricTitle, number, percent, plural } from "../format.js";
import { sweptOf } from "../records.js";
import { figure, runBadge, setRunBadge } from "../ui.js";
import { MEASURES, bestFirst, hasMean, rangeText, writerOf } from "./answer.js";
import { shortLabels } from "./verdict.js";

/**
 * @import { Comparison, Group, Result } from "../records.js"
 * @import { Measure } from "./answer.js"
 * @typedef {{ colour?: string, dash?: "solid" | "dash" | "dot" }} Style
 */

/** @type {Measure[]} the times by which runs are drawn: in training, or else by the clock. */
const CLOCKS = [MEASURES.time, { ...MEASURES.time, field: "wall_seconds_to_target" }];
const HINTS = {
  training: "Training time until the target was first reached, evaluation excluded",
  wall: "Time from the run's start until the target was first reached",
  after: "Value of the last evaluation within that time",
  rate: "Samples of all workers per second of training",
  contention: "Share of training time that other programs held the core of the most affected rank; above 5 %, it may distort the result",
  sent: "Mean bytes that a rank sends per step to exchange gradients or weights",
  saved: "Training time lost per checkpoint, and number of times the run resumed from one",
  cost: "Time for which the run held workers",
  mean: "Mean time to target (training) of all runs in the group",
  efficiency: "Speed-up divided by the increase in workers: 100 % is linear. In brackets: 95 % confidence interval",
  goodput: "Share of worker-seconds that advanced the final model: compute and communication",
  overhead: "Bucket with most of the other worker-seconds",
  p: "p-value of this comparison, corrected for multiple comparisons",
};

/**
 * @param {Comparison} comparison
 * @param {number[]} visible the ids of the runs to show
 * @param {(id: number) => Style} styleOf
 * @returns {{ bars: import("../bars.js").Bar[], note: string }} a bar for each group, the fastest first,
 *   with the interval of its mean and its runs; none if no group has a mean
 */
export function toBars({ groups, results }, visible, styleOf) {
  const measure = CLOCKS.find((clock) => groups.some((group) => hasMean(group, clock)));
  if (!measure) return { bars: [], note: "" };
  const shown = groups.filter(({ run_ids: ids }) => ids.some((id) => visible.includes(id)));
  const sorted = [...new Set([...bestFirst(shown, measure), ...shown])];
  const names = shortLabels(sorted.map(({ label, run_ids: [id, other] }) => (other ? label : nameOf(results.find((result) => result.run_id === id)))));
  const write = writerOf(sorted, measure).mean;
  const bars = sorted.map((group, i) => {
    const { reached, run_ids: keys } = group;
    const { mean: value, mean_low: low, mean_high: high } = group[measure.field] ?? {};
    const suffix = keys.length === 1 ? ` #${keys[0]}` : reached < keys.length ? ` (${reached} of ${keys.length} reached)` : "";
    const { colour } = styleOf(keys.find((id) => visible.includes(id)));
    const [text, pieces] = value == null ? ["not reached", []] : [write(group), [{ name: names[i], value, colour }]];
    return { name: `\u2068${names[i]}\u2069${suffix}`, keys, text, pieces, low, high };
  });
  const isMean = bars.some(({ keys }) => keys.length > 1);
  const note = [isMean && "mean of each group", bars.some(({ low }) => low != null) && "95 % interval", measure === CLOCKS[1] && "wall clock"];
  return { bars, note: note.filter(Boolean).join(", ") };
}

const nameOf = (/** @type {Result} */ result) => sweptOf(result) || result.display_name;

/**
 * @param {Result[]} results
 * @param {(id: number) => Style | undefined} styleOf
 * @returns {import("../ui.js").Column<Result>[]} the columns of a table of results
 */
export function resultColumns(results, styleOf) {
  // A limit beyond the end of all runs says nothing that their last values do not.
  const isWithin = results.every((result) => result.accuracy_after_time?.value === result.last_value);
  const metrics = [...new Set(results.map(({ target }) => target?.metric).filter(Boolean))];
  const metric = metrics.length === 1 ? metricTitle(metrics[0]).toLowerCase() : "";
  const unitOf = (/** @type {Result} */ { target }) => (target && isPercent(target.metric) ? " %" : "");
  /** @type {(title: string, valueOf: (result: Result) => number | null | undefined, hint?: string, unitOf?: (result: Result) => string) => any} */
  const numbers = (title, valueOf, hint, unitOf = () => "") => {
    const write = alignedNumbers(results.map(valueOf));
    return figure(title, (result) => (valueOf(result) == null ? NONE : write(valueOf(result)) + unitOf(result)), hint);
  };
  const times = (title, clock) => {
    const write = alignedDurations(results.map((result) => result.time_to_target?.[`${clock}_seconds`]));
    return figure(title, ({ target, time_to_target: time }) => (target && !time ? "not reached" : write(time?.[`${clock}_seconds`])), HINTS[clock]);
  };
  return withoutEmpty(results, [
    { title: "Run", isHead: true, fill: (cell, result) => fillName(cell, result, styleOf(result.run_id) ?? {}) },
    figure("Workers", (result) => count(result.num_workers)),
    { title: "Outcome", fill: fillOutcome },
    times("Time to target (training)", "training"),
    times("Time to target (wall clock)", "wall"),
    numbers("After time", (result) => (isWithin ? null : result.accuracy_after_time?.value), HINTS.after, unitOf),
    numbers(`Best ${metric}`.trim(), (result) => result.best_value, metrics.join(", "), unitOf),
    numbers(`Last ${metric}`.trim(), (result) => result.last_value, metrics.join(", "), unitOf),
    numbers("Samples/s", (result) => result.samples_per_second, HINTS.rate),
    numbers("Bytes per step", (result) => result.bytes_sent_per_step, HINTS.sent),
    figure("Checkpoints", checkpoints, HINTS.saved),
    { title: "CPU contention", hint: HINTS.contention, isFigure: true, fill: fillContention },
    figure("Epochs", (result) => count(result.epochs)),
    numbers("Worker-seconds", (result) => result.cost?.worker_seconds, HINTS.cost),
  ]);
}

/** @returns {import("../ui.js").Column<Group>[]} the columns of a table of groups. */
export function groupColumns(/** @type {Group[]} */ groups) {
  const write = alignedDurations(groups.map((group) => group.training_seconds_to_target?.maximum));
  const rate = alignedNumbers(groups.map((group) => group.samples_per_second?.mean));
  const sent = alignedNumbers(groups.map((group) => group.bytes_sent_per_step?.mean));
  const time = (title, name, hint = undefined) => figure(title, (group) => write(group.training_seconds_to_target?.[name] ?? null), hint);
  return withoutEmpty(groups, [
    { title: "Group", isHead: true, text: (group) => group.label },
    { title: "Run ids", text: (group) => group.run_ids.map((id) => `#${id}`).join(", ") },
    figure("Reached", (group) => `${group.reached} of ${group.run_ids.length}`),
    time("Mean", "mean", HINTS.mean),
    time("Median", "median"),
    time("Fastest", "minimum"),
    time("Slowest", "maximum"),
    figure("Speed-up by time", (group) => withInterval(group, "speedup", ratio)),
    figure("Efficiency by time", (group) => withInterval(group, "efficiency", percent), HINTS.efficiency),
    figure("Samples/s", (group) => rate(group.samples_per_second?.mean)),
    figure("Speed-up by samples/s", (group) => withInterval(group, "throughput_speedup", ratio)),
    figure("Efficiency by samples/s", (group) => withInterval(group, "throughput_efficiency", percent)),
    figure("Communication", (group) => percent(group.communication_share?.mean), "Share of the training time"),
    figure("Goodput", (group) => percent(group.goodput_share?.mean), HINTS.goodput),
    { title: "Largest overhead", hint: HINTS.overhead, text: (group) => group.largest_bucket ?? NONE },
    figure("Bytes per step", (group) => sent(group.bytes_sent_per_step?.mean), HINTS.sent),
    figure("Relative speed", (group) => ratio(group.evidence?.times_faster)),
    { title: "Compared with", text: (group) => group.evidence?.than ?? NONE },
    figure("p", (group) => number(group.evidence?.p, 2), HINTS.p),
  ]);
}

/**
 * @template Row
 * @param {Row[]} rows
 * @param {import("../ui.js").Column<Row>[]} columns
 * @returns the columns in which a row has a value
 */
function withoutEmpty(rows, columns) {
  return columns.filter(({ text }) => !text || rows.some((row) => text(row) !== NONE));
}

function withInterval(/** @type {Group} */ group, /** @type {string} */ name, write) {
  const [low, high] = [group[`${name}_low`], group[`${name}_high`]];
  return write(group[name]) + (low == null || low === high ? "" : ` (${rangeText(write(low), write(high))})`);
}

function ratio(value) {
  return value == null ? NONE : `${value.toFixed(2)}×`;
}

function fillContention(cell, /** @type {Partial<Result>} */ { contention_share, disturbed = [] }) {
  setText(cell, percent(contention_share, 1));
  cell.classList.toggle("warn-text", disturbed.length > 0);
}

function checkpoints(/** @type {Result} */ { checkpoints: saved, resumptions }) {
  const times = resumptions.length ? `, ${plural(resumptions.length, "resumption")}` : "";
  return (saved ? `${count(saved.count)} × ${duration(saved.seconds)}` : NONE) + times;
}

function fillName(cell, /** @type {Result} */ result, /** @type {Style} */ style) {
  const make = () => h("a", { href: `/runs/${result.run_id}`, class: "run-name" }, sample(style), h("bdi"), h("span", {}, ` #${result.run_id}`));
  reconcile(cell, [`${style.colour} ${style.dash}`], String, make, (link) => setText(link.querySelector("bdi"), nameOf(result)));
}

/** Show a run's outcome in a cell, or else its state. */
export function fillOutcome(cell, /** @type {Pick<Result, "state" | "outcome">} */ result) {
  if (!cell.firstElementChild) cell.append(runBadge(result));
  else setRunBadge(cell.firstElementChild, result);
}
