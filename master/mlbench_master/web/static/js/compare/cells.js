// The figures of groups: a heat map over two swept options, or else a bar for each group.

import { showBars } from "../bars.js";
import { byId, h, reconcile } from "../dom.js";
import { count, plural } from "../format.js";
import { MEASURES, bestFirst, hasMean, measureOf, optionTitle, writerOf } from "./answer.js";

/** @import { Measure } from "./answer.js" */

/** Show the figures of each metric, in the macro `cells` of templates/_comparison.html. Each group is a link. */
export function showCells(/** @type {Comparison} */ comparison, /** @type {(group: Group) => string} */ hrefOf) {
  const { groups, sweep } = comparison;
  for (const [name, measure] of Object.entries(MEASURES)) {
    const isKnown = groups.some((group) => hasMean(group, measure));
    byId(`measure-${name}`).parentElement.hidden = !isKnown;
    const grids = isKnown && sweep?.by ? sweep.panels.map((_, at) => makeGrid(comparison, measure, at, hrefOf)) : [];
    const parts = isKnown && !grids.length ? [makeBars(groups, measure, hrefOf)] : grids;
    // Links keep their places, so that the focus stays when the same figures come again.
    reconcile(byId(`cells-${name}`), parts, (part) => part.outerHTML, (part) => part);
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

function makeGrid(
  /** @type {Comparison} */ { groups, sweep },
  /** @type {Measure} */ measure,
  /** @type {number} */ at,
  /** @type {(group: Group) => string} */ hrefOf,
) {
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
