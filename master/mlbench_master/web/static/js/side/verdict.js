// The tab "Verdict": whether the runs can be compared, their results, and in what they differ.

import { showBars, showKey } from "../bars.js";
import { Chart } from "../chart.js";
import { showCells } from "../compare/cells.js";
import { showDifferences } from "../compare/differences.js";
import { addMenu, addTableMenu } from "../compare/menus.js";
import { groupColumns, resultColumns } from "../compare/results.js";
import { toPhases, toSpeedups } from "../compare/scaling.js";
import { foldsOf, showFolds, showHeadline } from "../compare/verdict.js";
import { byId, setNotice } from "../dom.js";
import { fillTable } from "../ui.js";

/**
 * @import { Found } from "../compare/loader.js"
 * @import { ShownRun } from "./side.js"
 */

// From this range of workers on, the axes are logarithmic.
const WIDE_RANGE = 8;
const NO_SPEEDUPS = "Comparable groups that differ in nothing but their workers have a chart.";

export class Verdict {
  #chart = new Chart(byId("scaling"), "Speed-up of each group over its number of workers", { hasFiles: false });

  constructor() {
    addMenu(byId("scaling"), "Scaling", this.#chart.exports);
    addTableMenu(byId("results"), "Results");
    addTableMenu(byId("differences"), "Differences");
    addTableMenu(byId("group-figures"), "Groups");
  }

  show(/** @type {Found} */ { comparison, manifests }, /** @type {ShownRun[]} */ runs) {
    const { groups, results, sweep } = comparison;
    showHeadline(byId("verdict-headline"), comparison);
    showFolds(byId("verdict-folds"), foldsOf(comparison, manifests, new Map(manifests.map(({ run_id, seed }) => [run_id, seed]))));
    const columns = resultColumns(results, (id) => runs.find(({ run }) => run.id === id) ?? {});
    fillTable(byId("results"), columns, results, (result) => result.run_id);
    byId("sweep").hidden = !sweep;
    if (sweep) showCells(comparison, ({ run_ids: ids }) => `/compare?runs=${ids.join(",")}`);
    showDifferences(comparison, manifests);
    this.#showSpeedups(groups);
    fillTable(byId("group-figures"), groupColumns(groups), groups, (group) => group.label);
    const bars = toPhases(groups);
    const pieces = bars.flatMap((bar) => bar.pieces);
    byId("phases-part").hidden = !pieces.length;
    if (!pieces.length) return;
    showKey(byId("phases-key"), [...new Map(pieces.map((piece) => [piece.name, piece])).values()]);
    showBars(byId("phases"), bars);
  }

  #showSpeedups(/** @type {Group[]} */ groups) {
    const lines = toSpeedups(groups);
    byId("scaling").hidden = !lines.length;
    setNotice(byId("scaling-note"), lines.length ? `Speed-up relative to ${groups[0].label}.` : NO_SPEEDUPS);
    if (!lines.length) return;
    const workers = groups.map((group) => group.num_workers);
    const type = workers.at(-1) > WIDE_RANGE * workers[0] ? "log" : "linear";
    this.#chart.draw(lines, { x: "workers", y: "speed-up", ySuffix: "×", xTicks: workers, fromZero: true, xType: type, yType: type });
  }
}
