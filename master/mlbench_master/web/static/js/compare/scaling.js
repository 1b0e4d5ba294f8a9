// How groups scale: speed-ups over the number of workers, the time in each phase, and a table.

import { showBars, showKey } from "../bars.js";
import { Chart } from "../chart.js";
import { byId, setNotice } from "../dom.js";
import { duration } from "../format.js";
import { PHASES, colourOfPhase } from "../records.js";
import { sum } from "../series.js";
import { fillTable } from "../ui.js";
import { addMenu } from "./menus.js";
import { groupColumns } from "./results.js";

/** @import { Group } from "../records.js" */

// From this range of workers on, the axes are logarithmic.
const WIDE_RANGE = 8;

/** The parts "Scaling", "Time breakdown" and "Groups" of templates/_side.html. */
export class Scaling {
  #chart = new Chart(byId("scaling"), "Speed-up of each group over its number of workers", { hasFiles: false });

  constructor() {
    addMenu(byId("scaling"), "Scaling", this.#chart.exports);
  }

  show(/** @type {Group[]} */ groups) {
    fillTable(byId("group-figures"), groupColumns(groups), groups, (group) => group.label);
    const lines = toSpeedups(groups);
    byId("scaling").hidden = !lines.length;
    setNotice(byId("scaling-note"), lines.length ? `Speed-up relative to ${groups[0].label}.` : "Comparable groups that differ in nothing but their workers have a chart.");
    const workers = groups.map((group) => group.num_workers);
    const type = workers.at(-1) > WIDE_RANGE * workers[0] ? "log" : "linear";
    if (lines.length) this.#chart.draw(lines, { x: "workers", y: "speed-up", ySuffix: "×", xTicks: workers, fromZero: true, xType: type, yType: type });
    const bars = toPhases(groups);
    const pieces = bars.flatMap((bar) => bar.pieces);
    byId("phases-part").hidden = !pieces.length;
    if (!pieces.length) return;
    showKey(byId("phases-key"), [...new Map(pieces.map((piece) => [piece.name, piece])).values()]);
    showBars(byId("phases"), bars);
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
  const ideal = { name: "ideal", x: workers, y: workers.map((count) => count / workers[0]), colour: "--soft", dash: /** @type {const} */ ("dash") };
  return [ideal, ...measured.map((line) => ({ ...line, x: workers, points: true }))];
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
