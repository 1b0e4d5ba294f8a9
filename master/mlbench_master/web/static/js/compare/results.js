// The results of runs and of groups: columns of tables, times to target as bars, and figures of groups as a heat map
// over two swept options.

import { showBars } from "../bars.js";
import { sample } from "../chart.js";
import { byId, draw, h } from "../dom.js";
import { NONE, alignedDurations, alignedNumbers, count, duration, isPercent, metricTitle, number, percent, plural } from "../format.js";
import { isActive, sweptOf } from "../records.js";
import { figure, runBadge } from "../ui.js";
import { MEASURES, abbreviated, bestFirst, hasMean, measureOf, optionTitle, rangeText, shortLabels, writerOf } from "./verdict.js";

/** @import { Measure } from "./verdict.js" */
/** @typedef {{ colour?: string, dash?: "solid" | "dash" | "dot" }} Style */

/** @type {Measure[]} the times by which runs are drawn: in training, or else by the clock. */
const CLOCKS = [MEASURES.time, { ...MEASURES.time, field: "wall_seconds_to_target" }];
const HINTS = {
  training: "Training time until the target was first reached, evaluation excluded",
  wall: "Time from the run's start until the target was first reached",
  contention: "Share of training time that other programs held the core of the most affected rank; above 5 %, it may distort the result",
  sent: "Mean bytes that a rank sends per step to exchange gradients or weights",
  saved: "Number of checkpoints, and training time lost per checkpoint",
  mean: "Mean of all runs in the group. In brackets: 95 % confidence interval",
  efficiency: "Speed-up divided by the increase in workers: 100 % is linear. In brackets: 95 % confidence interval",
  goodput: "Share of worker-seconds that advanced the final model: compute and communication",
  p: "p-value of the difference from the group's baseline, corrected for multiple comparisons",
};

/**
 * @returns {{ bars: import("../bars.js").Bar[], note: string }} a bar for each group with a visible run and a
 *   target, the fastest first, with the interval of its mean and its runs; none if no group has a mean
 */
export function toBars(/** @type {Comparison} */ { groups, results }, /** @type {number[]} */ visible, styleOf) {
  const measure = CLOCKS.find((clock) => groups.some((group) => hasMean(group, clock)));
  if (!measure) return { bars: [], note: "" };
  const withTarget = results.filter(({ target }) => target).map(({ run_id: id }) => id);
  const shown = groups.filter(({ run_ids: ids }) => ids.some((id) => visible.includes(id)) && ids.some((id) => withTarget.includes(id)));
  const sorted = [...new Set([...bestFirst(shown, measure), ...shown])];
  const names = namesOf(sorted, results);
  const write = writerOf(sorted, measure).mean;
  const bars = sorted.map((group, i) => {
    const { reached, run_ids: keys } = group;
    const { mean: value, mean_low: low, mean_high: high } = group[measure.field] ?? {};
    const suffix = keys.length === 1 ? ` #${keys[0]}` : reached < keys.length ? ` (${reached} of ${keys.length} reached)` : "";
    const { colour } = styleOf(keys.find((id) => visible.includes(id)));
    const isRunning = results.some((result) => keys.includes(result.run_id) && isActive(result));
    const [text, pieces] = value == null ? [isRunning ? "running" : "not reached", []] : [write(group), [{ name: names[i], value, colour }]];
    return { name: `\u2068${names[i]}\u2069${suffix}`, keys, text, pieces, low, high };
  });
  const isMean = bars.some(({ keys }) => keys.length > 1);
  const hasInterval = bars.some(({ low }) => low != null);
  const note = [isMean && "mean of each group", hasInterval && "95 % interval", measure !== MEASURES.time && "wall clock"];
  return { bars, note: note.filter(Boolean).join(", ") };
}

/** @returns {string[]} short names of groups: of their settings, or of a group's only run. */
export function namesOf(/** @type {Group[]} */ groups, /** @type {readonly Result[]} */ results) {
  const titleOf = (/** @type {number} */ id) => nameOf(results.find(({ run_id: other }) => other === id));
  return shortLabels(groups.map(({ label, run_ids: ids }) => (ids.length > 1 ? abbreviated(label) : titleOf(ids[0]))));
}

const nameOf = (/** @type {Result} */ result) => abbreviated(sweptOf(result)) || result.display_name;

/** @returns {import("../table.js").Column<Result>[]} the columns of a table of results. */
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
  const linkTo = (/** @type {Result} */ result) => {
    const parts = [sample(styleOf(result.run_id)), h("bdi", {}, nameOf(result)), h("span", {}, ` #${result.run_id}`)];
    return h("a", { href: `/runs/${result.run_id}`, class: "run-name" }, parts);
  };
  return withoutEmpty(results, [
    { title: "Run", isHead: true, cell: linkTo },
    figure("Workers", (result) => count(result.num_workers)),
    { title: "Outcome", cell: runBadge },
    times("Time to target (training)", "training"),
    times("Time to target (wall clock)", "wall"),
    numbers(`Best ${metric}`.trim(), (result) => result.best_value, metrics.join(", "), unitOf),
    numbers(`Last ${metric}`.trim(), (result) => result.last_value, metrics.join(", "), unitOf),
    numbers("Samples/s", (result) => result.samples_per_second, "Samples of all workers per second of training"),
    numbers("Bytes per step", (result) => result.bytes_sent_per_step, HINTS.sent),
    figure("Checkpoints", ({ checkpoints: saved }) => (saved ? `${count(saved.count)} × ${duration(saved.seconds)}` : NONE), HINTS.saved),
    figure("Resumptions", ({ resumptions }) => count(resumptions.length || null), "Number of times that the run resumed from a checkpoint"),
    figure("CPU contention", (result) => percent(result.contention_share, 1), HINTS.contention),
    figure("Epochs", (result) => count(result.epochs)),
    numbers("Worker-seconds", (result) => result.cost?.worker_seconds, "Time for which the run held workers"),
  ]);
}

/** @returns {import("../table.js").Column<Group>[]} the columns of a table of groups. */
export function groupColumns(/** @type {Group[]} */ groups) {
  const ratio = (/** @type {number | null} */ value) => (value == null ? NONE : `${value.toFixed(2)}×`);
  const [time, rate] = [MEASURES.time, MEASURES.rate].map((measure) => writerOf(groups, measure));
  const means = ({ mean, interval }) => (/** @type {Group} */ group) => mean(group) + inBrackets(interval(group));
  // Among groups of as many workers, each is the base of its own.
  const isScaled = groups.some(({ num_workers: workers }) => workers !== groups[0].num_workers);
  const scaled = (/** @type {string} */ name, /** @type {(value: number | null) => string} */ write) => (/** @type {Group} */ group) => {
    const [low, high] = [group[`${name}_low`], group[`${name}_high`]];
    return isScaled ? write(group[name]) + (low == null || low === high ? "" : inBrackets(rangeText(write(low), write(high)))) : NONE;
  };
  return withoutEmpty(groups, [
    { title: "Group", isHead: true, text: (group) => optionTitle(group.label) },
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
function withoutEmpty(/** @type {any[]} */ rows, /** @type {import("../table.js").Column<any>[]} */ columns) {
  return columns.filter(({ text }) => !text || rows.some((row) => text(row) !== NONE));
}

/** Show the figures of each metric, in the macro `cells` of templates/_comparison.html. Each group is a link. */
export function showCells(/** @type {Comparison} */ comparison, /** @type {(group: Group) => string} */ hrefOf) {
  const { groups, sweep } = comparison;
  for (const [name, measure] of Object.entries(MEASURES)) {
    const isKnown = groups.some((group) => hasMean(group, measure));
    byId(`measure-${name}`).parentElement.hidden = !isKnown;
    const grids = isKnown && sweep?.by ? sweep.panels.map((_, at) => makeGrid(comparison, measure, at, hrefOf)) : [];
    const parts = isKnown && !grids.length ? [makeBars(groups, measure, hrefOf)] : grids;
    draw(byId(`cells-${name}`), parts, (part) => parts.indexOf(part), (part) => part);
  }
  if (measureOf(groups) === MEASURES.rate) byId("measure-rate").checked = true;
}

/** @returns {(group: Group) => { mean: string, interval: string, name: string }} writes the figures of a group, and its accessible name. */
function textsOf(/** @type {Group[]} */ groups, /** @type {Measure} */ measure) {
  const write = writerOf(groups, measure);
  return (group) => {
    const [interval, runs] = [write.interval(group), plural(group.run_ids.length, "run")];
    const isMissed = measure.isLessBetter && !hasMean(group, measure);
    const mean = isMissed ? `${group.reached} of ${group.run_ids.length} reached` : write.mean(group);
    const name = [`${optionTitle(group.label)}: ${mean}`, interval && `95 % ${interval}`, runs].filter(Boolean).join(", ");
    return { mean, interval: interval || (hasMean(group, measure) ? runs : ""), name };
  };
}

function makeGrid(/** @type {Comparison} */ { groups, sweep }, /** @type {Measure} */ measure, /** @type {number} */ at, hrefOf) {
  const { across, by, panels, charts } = sweep;
  const [best] = bestFirst(groups, measure);
  const write = textsOf(groups, measure);
  const heats = charts.find(({ panel, unit }) => panel === at && (unit === "s") === measure.isLessBetter)?.cells;
  const titleOf = ({ key, unit }, value) => `${optionTitle(key)} ${unit ? `${value.replace(unit, "").trim()} ${unit}` : value}`;
  const cellOf = (/** @type {number | null} */ of, i, j) => {
    const group = groups[of];
    if (!group) return h("td", {}, h("span", { class: "cell soft" }, "–"));
    const { mean, interval, name } = write(group);
    const texts = [h("b", { class: !hasMean(group, measure) && "missed" }, mean), h("span", {}, interval)];
    const marks = { "data-heat": heats?.[i][j]?.heat, "data-best": group === best };
    return h("td", {}, h("a", { class: "cell", href: hrefOf(group), "aria-label": name, title: name, ...marks }, texts));
  };
  const title = optionTitle(panels[at].label);
  const head = h("tr", {}, h("td"), across.values.map((value) => h("th", { scope: "col" }, titleOf(across, value))));
  const lines = panels[at].cells.map((row, i) => {
    return h("tr", {}, h("th", { scope: "row" }, titleOf(by, by.values[i])), row.map((of, j) => cellOf(of, i, j)));
  });
  const table = h("table", { class: "cells" }, title && h("caption", {}, title), h("thead", {}, head), h("tbody", {}, lines));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title || "Heat map" }, table);
}

function makeBars(/** @type {Group[]} */ groups, /** @type {Measure} */ measure, /** @type {(group: Group) => string} */ hrefOf) {
  const [best] = bestFirst(groups, measure);
  const write = textsOf(groups, measure);
  const bars = groups.map((group) => {
    const { mean: value, mean_low: low, mean_high: high } = group[measure.field] ?? {};
    const { mean, interval } = write(group);
    const text = [mean, interval, scalingOf(group, groups)].filter(Boolean).join(" · ");
    const pieces = value == null ? [] : [{ name: measure.title, value, colour: "--series-0" }];
    return { name: optionTitle(group.label), text, href: hrefOf(group), isBest: group === best, pieces, low, high };
  });
  const place = h("div", { class: "bars-wide" });
  showBars(place, bars);
  return place;
}

/** @returns {string} the speed-up and the efficiency of a group with more workers than the first. */
export function scalingOf(/** @type {Group} */ group, /** @type {Group[]} */ groups) {
  const isFirst = groups.every(({ num_workers: workers }) => workers >= group.num_workers);
  const [speedup, efficiency] = [group.speedup ?? group.throughput_speedup, group.efficiency ?? group.throughput_efficiency];
  if (isFirst || speedup == null || efficiency == null) return "";
  return `${speedup.toFixed(2)}×, efficiency ${count(100 * efficiency)} %`;
}
