// The section "Scaling": speed-up, efficiency and phases of groups of runs.

import { showBars, showKey } from "../bars.js";
import { Chart } from "../chart.js";
import { h, setText } from "../dom.js";
import { NONE, alignedDurations, alignedNumbers, duration, number, percent } from "../format.js";
import { PHASES, colourOfPhase } from "../records.js";
import { sum } from "../series.js";
import { makePart, makeTable, moreMenu, tableMenu } from "../side/tools.js";
import { figure, fillTable } from "../ui.js";
import { SENT_HINT, withoutEmpty } from "./times.js";

/** @import { Group } from "../records.js" */

// From this range of workers on, the axes are logarithmic.
const WIDE_RANGE = 8;
const PHASES_NOTE = "Mean over ranks and runs, evaluation excluded.";
const MEAN_HINT = "Mean time to target (training) of all runs in the group";
const P_HINT = "p-value of this comparison, corrected for multiple comparisons";
const EFFICIENCY_HINT = "Speed-up divided by the increase in workers: 100 % is linear. In brackets: 95 % confidence interval";
const GOODPUT_HINT = "Share of worker-seconds that advanced the final model: compute and communication";

export class Scaling {
  #speedup = h("div");
  #speedupNote = h("p", { class: "soft small-text" });
  #phases = h("div");
  #phasesNote = h("p", { class: "soft small-text" });
  #key = h("ul", { class: "key" });
  #groups = makeTable("Groups of runs");
  #chart = new Chart(this.#speedup, "Speed-up of each group over its number of workers", { hasFiles: false });
  element = h(
    "div",
    { class: "side-parts" },
    makePart("Scaling", [moreMenu("Scaling", this.#chart.exports)], this.#speedup, this.#speedupNote),
    makePart("Time breakdown", [], this.#key, this.#phases, this.#phasesNote),
    makePart("Groups", [tableMenu(this.#groups.table, "Groups")], this.#groups.scroll),
  );

  show(/** @type {Group[]} */ groups) {
    fillTable(this.#groups.table, columnsOf(groups), groups, (group) => group.label);
    this.#showSpeedups(groups);
    this.#showPhases(groups);
  }

  #showSpeedups(groups) {
    const lines = toSpeedups(groups);
    this.#speedup.hidden = lines.length === 0;
    setText(this.#speedupNote, speedupNote(groups, lines));
    if (lines.length) this.#chart.draw(lines, speedupAxes(groups));
  }

  #showPhases(groups) {
    const bars = toPhases(groups);
    const hasAny = bars.some(({ pieces }) => pieces.length);
    for (const part of [this.#phases, this.#key]) part.hidden = !hasAny;
    setText(this.#phasesNote, hasAny ? PHASES_NOTE : "No run recorded phases.");
    if (!hasAny) return;
    showKey(this.#key, [...new Map(bars.flatMap(({ pieces }) => pieces).map((piece) => [piece.name, piece])).values()]);
    showBars(this.#phases, bars);
  }
}

/** @returns {import("../plot.js").Line[]} the speed-ups and the ideal; empty if nothing scales. */
export function toSpeedups(/** @type {Group[]} */ groups) {
  const workers = groups.map((group) => group.num_workers);
  if (groups.length < 2 || new Set(workers).size < groups.length) return [];
  const measured = [
    { name: "time to target", y: groups.map((group) => group.speedup), colour: "--series-0" },
    { name: "throughput", y: groups.map((group) => group.throughput_speedup), colour: "--series-1" },
    // A single speed-up, of the first group, is always 1.
  ].filter(({ y }) => y.filter((value) => value !== null).length > 1);
  if (!measured.length) return [];
  const ideal = workers.map((count) => count / workers[0]);
  const lines = measured.map((line) => ({ ...line, x: workers, points: true }));
  return [{ name: "ideal", x: workers, y: ideal, colour: "--soft", dash: "dash" }, ...lines];
}

/** @returns {import("../bars.js").Bar[]} the seconds of each group in each phase. */
export function toPhases(/** @type {Group[]} */ groups) {
  const rest = new Set(groups.flatMap((group) => Object.keys(group.phases)));
  const names = [...PHASES.filter((name) => rest.delete(name)), ...[...rest].sort()];
  return groups.map(({ label, phases }) => ({
    name: label,
    text: duration(sum(Object.values(phases))),
    pieces: names.filter((name) => name in phases).map((name) => ({
      name,
      value: phases[name],
      colour: colourOfPhase(name),
      hint: `${name} ${duration(phases[name])}`,
    })),
  }));
}

/** @returns {import("../plot.js").Axes} */
function speedupAxes(groups) {
  const workers = groups.map((group) => group.num_workers);
  const type = workers.at(-1) > WIDE_RANGE * workers[0] ? "log" : "linear";
  const scale = /** @type {const} */ ({ xType: type, yType: type });
  return { x: "workers", y: "speed-up", ySuffix: "×", xTicks: workers, fromZero: true, ...scale };
}

function speedupNote(groups, lines) {
  if (lines.length) return `Speed-up relative to ${groups[0].label}.`;
  if (groups.length < 2) return "Only one group of runs. Add runs with more workers.";
  if (new Set(groups.map((group) => group.num_workers)).size < groups.length) {
    return "The groups differ in more than their workers. The table has the speed-up of each group.";
  }
  return "No two groups are comparable.";
}

/** @returns {import("../ui.js").Column<Group>[]} the columns of the table of groups. */
export function columnsOf(/** @type {Group[]} */ groups) {
  const write = alignedDurations(groups.map((group) => group.training_seconds_to_target?.maximum));
  const rate = alignedNumbers(groups.map((group) => group.samples_per_second?.mean));
  const sent = alignedNumbers(groups.map((group) => group.bytes_sent_per_step?.mean));
  const time = (title, name, hint = undefined) =>
    figure(title, (group) => write(group.training_seconds_to_target?.[name] ?? null), hint);
  return withoutEmpty(groups, [
    { title: "Group", isHead: true, text: (group) => group.label },
    { title: "Run ids", text: (group) => group.run_ids.map((id) => `#${id}`).join(", ") },
    figure("Reached", (group) => `${group.reached} of ${group.run_ids.length}`),
    time("Mean", "mean", MEAN_HINT),
    time("Median", "median"),
    time("Fastest", "minimum"),
    time("Slowest", "maximum"),
    figure("Speed-up by time", (group) => scaled(group, "speedup", times)),
    figure("Efficiency by time", (group) => scaled(group, "efficiency", percent), EFFICIENCY_HINT),
    figure("Samples/s", (group) => rate(group.samples_per_second?.mean)),
    figure("Speed-up by samples/s", (group) => scaled(group, "throughput_speedup", times)),
    figure("Efficiency by samples/s", (group) => scaled(group, "throughput_efficiency", percent)),
    figure("Communication", (group) => percent(group.communication_share?.mean), "Share of the training time"),
    figure("Goodput", (group) => percent(group.goodput_share?.mean), GOODPUT_HINT),
    { title: "Largest overhead", hint: "Bucket with most of the other worker-seconds", text: (group) => group.largest_bucket ?? NONE },
    figure("Bytes per step", (group) => sent(group.bytes_sent_per_step?.mean), SENT_HINT),
    ...evidence(),
  ]);
}

// Significance of the difference from another group.
function evidence() {
  return [
    figure("Relative speed", (group) => times(group.evidence?.times_faster)),
    { title: "Compared with", text: (group) => group.evidence?.than ?? NONE },
    figure("p", (group) => number(group.evidence?.p, 2), P_HINT),
  ];
}

function scaled(group, name, write) {
  const [low, high] = [group[`${name}_low`], group[`${name}_high`]];
  const interval = low == null || low === high ? "" : ` (${write(low)} to ${write(high)})`;
  return write(group[name]) + interval;
}

function times(value) {
  return value == null ? NONE : `${value.toFixed(2)}×`;
}
