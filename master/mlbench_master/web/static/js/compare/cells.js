// The figures of groups: a heat map over two swept options, or else a bar for each group.

import { showBars } from "../bars.js";
import { h, reconcile } from "../dom.js";
import { count, plural } from "../format.js";
import { bestFirst, hasMean, optionTitle, writerOf } from "./answer.js";

/**
 * @import { Comparison, Group } from "../records.js"
 * @import { Measure } from "./answer.js"
 *
 * A combination in a heat map; its group is null if it has no run yet.
 * @typedef {{ group: Group | null, isBest: boolean, heat: number | null }} Cell
 * @typedef {{ title: string, columns: string[], rows: { title: string, cells: Cell[] }[] }} Grid
 * @typedef {{ mean: string, interval: string, name: string, href: string }} Texts
 */

/** @returns {Grid[]} a heat map for each combination of the options beyond two; empty for a single option. */
export function gridsOf(/** @type {Comparison} */ { sweep, groups }, /** @type {Measure} */ measure) {
  if (!sweep?.by) return [];
  const { across, by, panels, charts } = sweep;
  const [best] = bestFirst(groups, measure);
  const titleOf = (axis, value) => [optionTitle(axis.key), axis.unit ? value.replace(axis.unit, "") : value, axis.unit].filter(Boolean).join(" ");
  return panels.map((panel, at) => {
    const chart = charts.find(({ panel: shown, unit }) => shown === at && (unit === "s") === measure.isLessBetter);
    const cellOf = (group, i, j) => ({ group: groups[group] ?? null, isBest: groups[group] === best, heat: chart?.cells[i][j]?.heat ?? null });
    const rows = panel.cells.map((row, i) => ({ title: titleOf(by, by.values[i]), cells: row.map((group, j) => cellOf(group, i, j)) }));
    return { title: optionTitle(panel.label), columns: across.values.map((value) => titleOf(across, value)), rows };
  });
}

/**
 * Show the figures of a comparison. Each group is a link.
 * @param {HTMLElement} place
 * @param {Comparison} comparison
 * @param {Measure} measure
 * @param {(group: Group) => string} hrefOf
 */
export function showCells(place, comparison, measure, hrefOf) {
  const { groups } = comparison;
  const write = writerOf(groups, measure);
  /** @returns {Texts} */
  const textsOf = (/** @type {Group} */ group) => {
    const [interval, runs] = [write.interval(group), plural(group.run_ids.length, "run")];
    const missed = measure.isLessBetter ? `${group.reached} of ${group.run_ids.length} reached` : "–";
    const mean = hasMean(group, measure) ? write.mean(group) : missed;
    const name = [`${optionTitle(group.label)}: ${mean}`, interval && `95 % ${interval}`, runs].filter(Boolean).join(", ");
    return { mean, interval: interval || (hasMean(group, measure) ? runs : ""), name, href: hrefOf(group) };
  };
  const grids = gridsOf(comparison, measure).map((grid) => drawGrid(grid, measure, textsOf));
  const parts = grids.length ? grids : [drawBars(groups, measure, textsOf)];
  // Links keep their places, so that the focus stays when the same figures come again.
  reconcile(place, parts, (part) => part.outerHTML, (part) => part);
}

function drawGrid(/** @type {Grid} */ { title, columns, rows }, /** @type {Measure} */ measure, /** @type {(group: Group) => Texts} */ textsOf) {
  const cellOf = (/** @type {Cell} */ { group, isBest, heat }) => {
    if (!group) return h("td", {}, h("span", { class: "cell soft" }, "–"));
    const { mean, interval, name, href } = textsOf(group);
    const texts = [h("b", { class: !hasMean(group, measure) && "missed" }, mean), h("span", {}, interval)];
    return h("td", {}, h("a", { class: "cell", href, "aria-label": name, title: name, "data-heat": heat, "data-best": isBest }, texts));
  };
  const head = h("tr", {}, h("td"), columns.map((name) => h("th", { scope: "col" }, name)));
  const lines = rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.title), row.cells.map(cellOf)));
  const table = h("table", { class: "cells" }, title && h("caption", {}, title), h("thead", {}, head), h("tbody", {}, lines));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title || "Heat map" }, table);
}

function drawBars(/** @type {Group[]} */ groups, /** @type {Measure} */ measure, /** @type {(group: Group) => Texts} */ textsOf) {
  const [best] = bestFirst(groups, measure);
  const bars = groups.map((group) => {
    const { mean: value, mean_low: low, mean_high: high } = group[measure.field] ?? {};
    const { mean, interval, href } = textsOf(group);
    const text = [mean, interval, scalingOf(group, groups)].filter(Boolean).join(" · ");
    const pieces = value == null ? [] : [{ name: measure.title, value, colour: "--series-0" }];
    return { name: optionTitle(group.label), text, href, isBest: group === best, pieces, low, high };
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
