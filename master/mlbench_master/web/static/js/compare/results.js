// The results of runs and of groups: columns of tables, and the times to target as bars.

import { sample } from "../chart.js";
import { h, reconcile, setText } from "../dom.js";
import { NONE, alignedDurations, alignedNumbers, count, duration, isPercent, metricTitle, number, percent } from "../format.js";
import { sweptOf } from "../records.js";
import { figure, runBadge, setRunBadge } from "../ui.js";
import { MEASURES, bestFirst, hasMean, rangeText, writerOf } from "./answer.js";
import { shortLabels } from "./verdict.js";

/**
 * @import { Measure } from "./answer.js"
 * @typedef {{ colour?: string, dash?: "solid" | "dash" | "dot" }} Style
 */

/** @type {Measure[]} the times by which runs are drawn: in training, or else by the clock. */
const CLOCKS = [MEASURES.time, { ...MEASURES.time, field: "wall_seconds_to_target" }];
const HINTS = {
  training: "Training time until the target was first reached, evaluation excluded",
  wall: "Time from the run's start until the target was first reached",
  rate: "Samples of all workers per second of training",
  contention: "Share of training time that other programs held the core of the most affected rank; above 5 %, it may distort the result",
  sent: "Mean bytes that a rank sends per step to exchange gradients or weights",
  saved: "Number of checkpoints, and training time lost per checkpoint",
  resumed: "Number of times that the run resumed from a checkpoint",
  cost: "Time for which the run held workers",
  mean: "Mean of all runs in the group. In brackets: 95 % confidence interval",
  efficiency: "Speed-up divided by the increase in workers: 100 % is linear. In brackets: 95 % confidence interval",
  goodput: "Share of worker-seconds that advanced the final model: compute and communication",
  p: "p-value of the difference from the group's baseline, corrected for multiple comparisons",
};

/**
 * @returns {{ bars: import("../bars.js").Bar[], note: string }} a bar for each group with a visible run, the fastest
 *   first, with the interval of its mean and its runs; none if no group has a mean
 */
export function toBars(
  /** @type {Comparison} */ { groups, results },
  /** @type {number[]} */ visible,
  /** @type {(id: number) => Style} */ styleOf,
) {
  const measure = CLOCKS.find((clock) => groups.some((group) => hasMean(group, clock)));
  if (!measure) return { bars: [], note: "" };
  const shown = groups.filter(({ run_ids: ids }) => ids.some((id) => visible.includes(id)));
  const sorted = [...new Set([...bestFirst(shown, measure), ...shown])];
  const titles = new Map(results.map((result) => [result.run_id, nameOf(result)]));
  const names = shortLabels(sorted.map(({ label, run_ids: ids }) => (ids.length > 1 ? label : titles.get(ids[0]))));
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
  const hasInterval = bars.some(({ low }) => low != null);
  const note = [isMean && "mean of each group", hasInterval && "95 % interval", measure !== MEASURES.time && "wall clock"];
  return { bars, note: note.filter(Boolean).join(", ") };
}

const nameOf = (/** @type {Result} */ result) => sweptOf(result) || result.display_name;

/** @returns {import("../ui.js").Column<Result>[]} the columns of a table of results. */
export function resultColumns(/** @type {Result[]} */ results, styleOf = (/** @type {number} */ _id) => /** @type {Style} */ ({})) {
  const metrics = [...new Set(results.map(({ target }) => target?.metric).filter(Boolean))];
  const metric = metrics.length === 1 ? metricTitle(metrics[0]).toLowerCase() : "";
  const unitOf = (/** @type {Result} */ { target }) => (target && isPercent(target.metric) ? " %" : "");
  /** @type {(title: string, valueOf: (result: Result) => number, hint?: string, unitOf?: (result: Result) => string) => any} */
  const numbers = (title, valueOf, hint, unitOf = () => "") => {
    const write = alignedNumbers(results.map(valueOf));
    return figure(title, (result) => (valueOf(result) == null ? NONE : write(valueOf(result)) + unitOf(result)), hint);
  };
  const times = (title, clock) => {
    const write = alignedDurations(results.map((result) => result.time_to_target?.[`${clock}_seconds`]));
    const text = ({ target, time_to_target: time }) => (target && !time ? "not reached" : write(time?.[`${clock}_seconds`]));
    return figure(title, text, HINTS[clock]);
  };
  return withoutEmpty(results, [
    { title: "Run", isHead: true, fill: (cell, result) => fillName(cell, result, styleOf(result.run_id)) },
    figure("Workers", (result) => count(result.num_workers)),
    { title: "Outcome", fill: fillOutcome },
    times("Time to target (training)", "training"),
    times("Time to target (wall clock)", "wall"),
    numbers(`Best ${metric}`.trim(), (result) => result.best_value, metrics.join(", "), unitOf),
    numbers(`Last ${metric}`.trim(), (result) => result.last_value, metrics.join(", "), unitOf),
    numbers("Samples/s", (result) => result.samples_per_second, HINTS.rate),
    numbers("Bytes per step", (result) => result.bytes_sent_per_step, HINTS.sent),
    figure("Checkpoints", ({ checkpoints: saved }) => (saved ? `${count(saved.count)} × ${duration(saved.seconds)}` : NONE), HINTS.saved),
    figure("Resumptions", ({ resumptions }) => count(resumptions.length || null), HINTS.resumed),
    figure("CPU contention", (result) => percent(result.contention_share, 1), HINTS.contention),
    figure("Epochs", (result) => count(result.epochs)),
    numbers("Worker-seconds", (result) => result.cost?.worker_seconds, HINTS.cost),
  ]);
}

/** @returns {import("../ui.js").Column<Group>[]} the columns of a table of groups. */
export function groupColumns(/** @type {Group[]} */ groups) {
  const ratio = (/** @type {number | null} */ value) => (value == null ? NONE : `${value.toFixed(2)}×`);
  const [time, rate] = [MEASURES.time, MEASURES.rate].map((measure) => writerOf(groups, measure));
  const means = ({ mean, interval }) => (/** @type {Group} */ group) => mean(group) + inBrackets(interval(group));
  const scaled = (/** @type {string} */ name, /** @type {(value: number | null) => string} */ write) => (/** @type {Group} */ group) => {
    const [low, high] = [group[`${name}_low`], group[`${name}_high`]];
    return write(group[name]) + (low == null || low === high ? "" : inBrackets(rangeText(write(low), write(high))));
  };
  return withoutEmpty(groups, [
    { title: "Group", isHead: true, text: (group) => group.label },
    { title: "Run ids", text: (group) => group.run_ids.map((id) => `#${id}`).join(", ") },
    figure("Reached", (group) => `${group.reached} of ${group.run_ids.length}`),
    figure("Time to target", means(time), HINTS.mean),
    figure("Speed-up by time", scaled("speedup", ratio), HINTS.mean),
    figure("Efficiency by time", scaled("efficiency", percent), HINTS.efficiency),
    figure("Throughput", means(rate), HINTS.mean),
    figure("Speed-up by throughput", scaled("throughput_speedup", ratio), HINTS.mean),
    figure("Efficiency by throughput", scaled("throughput_efficiency", percent), HINTS.efficiency),
    figure("Communication", (group) => percent(group.communication_share?.mean), "Share of the training time"),
    figure("Goodput", (group) => percent(group.goodput_share?.mean), HINTS.goodput),
    figure("p", (group) => number(group.evidence?.p, 2), HINTS.p),
  ]);
}

const inBrackets = (/** @type {string} */ interval) => interval && ` (${interval})`;

/** @returns {any[]} the columns in which a row has a value */
function withoutEmpty(/** @type {any[]} */ rows, /** @type {import("../ui.js").Column<any>[]} */ columns) {
  return columns.filter(({ text }) => !text || rows.some((row) => text(row) !== NONE));
}

function fillName(cell, /** @type {Result} */ result, /** @type {Style} */ style) {
  const { run_id: id } = result;
  const make = () => h("a", { href: `/runs/${id}`, class: "run-name" }, sample(style), h("bdi"), h("span", {}, ` #${id}`));
  reconcile(cell, [`${style.colour} ${style.dash}`], String, make, (link) => setText(link.querySelector("bdi"), nameOf(result)));
}

/** Show a run's outcome in a cell, or else its state. */
export function fillOutcome(cell, /** @type {Pick<Result, "state" | "outcome">} */ result) {
  if (!cell.firstElementChild) cell.append(runBadge(result));
  else setRunBadge(cell.firstElementChild, result);
}
