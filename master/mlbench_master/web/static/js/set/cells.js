// The figures of a set's combinations: a heat map over two options, or a bar for each value of one.

import { query } from "../api.js";
import { h, reconcile } from "../dom.js";
import { count, plural } from "../format.js";
import { termsOf } from "../runs/groups.js";
import { combinationOf, optionTitle, writerOf } from "./answer.js";

/**
 * @import { Comparison, Group } from "../records.js"
 * @import { Measure } from "./answer.js"
 *
 * A combination in a heat map; its group is null if it has no run yet.
 * @typedef {{ group: Group | null, isBest: boolean, heat: number | null }} Cell
 * @typedef {{ title: string, columns: string[], rows: { title: string, cells: Cell[] }[] }} Grid
 */

/**
 * @param {Comparison} comparison of a sweep
 * @param {Measure} measure
 * @param {number} best position of the best group
 * @returns {Grid[]} a heat map for each combination of the options beyond two; empty for a single option
 */
export function gridsOf({ sweep, groups }, measure, best) {
  if (!sweep?.by) return [];
  const { across, by, panels, charts } = sweep;
  const titleOf = (axis, value) => [optionTitle(axis.key), axis.unit ? value.replace(axis.unit, "") : value, axis.unit].filter(Boolean).join(" ");
  return panels.map((panel, at) => {
    const chart = charts.find(({ panel: shown, unit }) => shown === at && (unit === "s") === measure.isLessBetter);
    const cellOf = (group, i, j) => ({ group: groups[group] ?? null, isBest: group === best, heat: chart?.cells[i][j]?.heat ?? null });
    const rows = panel.cells.map((row, i) => ({ title: titleOf(by, by.values[i]), cells: row.map((group, j) => cellOf(group, i, j)) }));
    return { title: optionTitle(panel.label), columns: across.values.map((value) => titleOf(across, value)), rows };
  });
}

/** Show the figures of a comparison. Each leads to the runs of its combination. */
export function showCells(/** @type {HTMLElement} */ place, /** @type {string} */ set, /** @type {Comparison} */ comparison, /** @type {Measure} */ measure, /** @type {number} */ best) {
  const grids = gridsOf(comparison, measure, best);
  const linkOf = linker(set, comparison.groups, measure);
  const parts = grids.length ? grids.map((grid) => drawGrid(grid, linkOf)) : [drawBars(comparison.groups, measure, best, linkOf)];
  // Links keep their places, so that the focus stays when the same figures come again.
  reconcile(place, parts, (part) => part.outerHTML, (part) => part);
}

function linker(/** @type {string} */ set, /** @type {Group[]} */ groups, /** @type {Measure} */ measure) {
  const write = writerOf(groups.map((group) => group[measure.field]), measure);
  return (/** @type {Group} */ group, /** @type {object} */ props, ...children) => {
    const summary = group[measure.field];
    const interval = write.interval(summary);
    const runs = group.run_ids.length;
    const swept = Object.entries(group.swept).map(([key, value]) => `${key}=${value}`).join(", ");
    const terms = termsOf({ set, ...(swept && { swept }), workers: String(group.num_workers) });
    const isKnown = summary?.mean != null;
    const mean = isKnown ? write.mean(summary) : measure.isLessBetter ? `${group.reached} of ${runs} reached` : "–";
    const name = [`${combinationOf(group, groups)}: ${mean}`, interval && `95 % ${interval}`, plural(runs, "run")].filter(Boolean).join(", ");
    const link = h("a", { href: `/runs${query({ query: terms })}`, "aria-label": name, title: name, ...props }, children);
    link.append(h("b", { class: isKnown ? "" : "missed" }, mean), h("span", {}, interval || (isKnown ? plural(runs, "run") : "")));
    return link;
  };
}

function drawGrid(/** @type {Grid} */ { title, columns, rows }, linkOf) {
  const cellOf = ({ group, isBest, heat }) => {
    if (!group) return h("td", {}, h("span", { class: "cell soft" }, "–"));
    return h("td", {}, linkOf(group, { class: "cell", "data-heat": heat, "data-best": isBest }));
  };
  const head = h("tr", {}, h("td"), columns.map((name) => h("th", { scope: "col" }, name)));
  const lines = rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.title), row.cells.map(cellOf)));
  const table = h("table", { class: "cells" }, title && h("caption", {}, title), h("thead", {}, head), h("tbody", {}, lines));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title || "Heat map" }, table);
}

function drawBars(/** @type {Group[]} */ groups, /** @type {Measure} */ { field }, /** @type {number} */ best, linkOf) {
  const ends = groups.map((group) => group[field]?.mean_high ?? group[field]?.mean ?? 0);
  const longest = Math.max(...ends);
  const share = (value) => `${(100 * value) / longest}%`;
  return h("div", { class: "set-bars" }, groups.map((group, i) => {
    const { mean, mean_low: low, mean_high: high } = group[field] ?? {};
    const piece = h("span", { class: "set-bar" });
    const whisker = low != null && high != null && h("span", { class: "bar-whisker" });
    if (mean != null) piece.style.width = share(mean);
    if (whisker) [whisker.style.left, whisker.style.width] = [share(low), share(high - low)];
    const name = h("span", { class: "set-bar-name" }, combinationOf(group, groups));
    const more = scalingOf(group, groups);
    const link = linkOf(group, { class: "set-bar-row", "data-best": i === best }, name, h("span", { class: "set-bar-track" }, piece, whisker));
    if (more) link.append(h("span", { class: "soft" }, more));
    return link;
  }));
}

/** @returns {string} the speed-up and the efficiency of a group with more workers than the first */
export function scalingOf(/** @type {Group} */ group, /** @type {Group[]} */ groups) {
  const isFirst = groups.every(({ num_workers: workers }) => workers >= group.num_workers);
  const [speedup, efficiency] = [group.speedup ?? group.throughput_speedup, group.efficiency ?? group.throughput_efficiency];
  if (isFirst || speedup == null || efficiency == null) return "";
  return `${speedup.toFixed(2)}×, efficiency ${count(100 * efficiency)} %`;
}
