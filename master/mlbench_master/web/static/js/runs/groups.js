// Groups of runs as a grid: how many they are, and the means of columns with their intervals.

import { query } from "../api.js";
import { h, setText } from "../dom.js";
import * as format from "../format.js";
import { textOf, titleOf, writerOf } from "./columns.js";
import { quoted } from "./filter.js";

/**
 * @typedef {import("../records.js").Schemas["RunGroup"]} RunGroup
 * @import { Column } from "../table.js"
 */

const MEANS = ["time_to_target", "best", "throughput", "goodput", "duration"];
// What has no mean.
const TEXTS = ["outcome", "contention", "curve", "created", "*"];
const [KEY_PX, RUNS_PX, MEAN_PX] = [180, 72, 150];

/** @returns {string} a query that finds the runs of a group. */
export function termsOf(/** @type {RunGroup["values"]} */ values) {
  return Object.entries(values).map(([name, value]) => `${name}=${quoted(String(value ?? ""))}`).join(" ");
}

/** @returns {string[]} the columns whose means are asked for. */
export function meansOf(/** @type {Pick<import("./columns.js").Columns, "ids" | "group">} */ { ids, group }) {
  return [...new Set([...MEANS, ...ids])].filter((name) => !group.includes(name) && !TEXTS.includes(name));
}

/** @returns {string | null} an order, if groups can be sorted by it. */
export function orderOf(/** @type {import("./columns.js").Columns} */ columns) {
  const shown = [...columns.group, "runs", ...meansOf(columns)];
  return shown.includes(columns.order.replace("-", "")) ? columns.order : null;
}

/**
 * @param {RunGroup[]} groups in their order
 * @param {import("./columns.js").Columns} columns
 * @param {string} asked the query that all groups match
 * @returns {Column<RunGroup>[]} columns of the groups; the first leads to a group's runs
 */
export function groupColumns(groups, columns, asked) {
  const keys = Object.keys(groups[0]?.values ?? {});
  const means = meansOf(columns).filter((name) => groups.some((group) => group.means[name]));
  const widthOf = (id, width) => ({ width: columns.widths[id] ?? width });
  return [
    ...keys.map((id, i) => ({
      ...{ id, order: id, title: titleOf(id), isHead: i === 0, isPinned: i === 0, isFixed: true, ...widthOf(id, KEY_PX) },
      ...(i === 0 ? { fill: (cell, group) => showLink(cell, group, asked) } : { text: ({ values }) => textOf(values[id]) }),
    })),
    { id: "runs", order: "runs", title: "Runs", isFigure: true, isFixed: true, width: RUNS_PX, text: ({ runs }) => format.count(runs) },
    ...means.map((id) => {
      const unit = columns.fields.find(({ name }) => name === id)?.unit;
      const write = writerOf(id, groups.flatMap(({ means: { [id]: mean } }) => (mean ? [mean.mean, mean.low, mean.high] : [])), unit);
      const fill = (cell, group) => showMean(cell, group.means[id], group.runs, write);
      return { id, order: id, title: titleOf(id), isFigure: true, isFixed: true, ...widthOf(id, MEAN_PX), fill };
    }),
  ];
}

function showLink(cell, /** @type {RunGroup} */ { values }, asked) {
  const terms = termsOf(values);
  if (!cell.firstElementChild) cell.append(h("a", { class: "runs-group" }));
  const link = cell.firstElementChild;
  setText(link, textOf(Object.values(values)[0]));
  link.href = `/runs${query({ query: [asked, terms].filter(Boolean).join(" ") })}`;
  link.setAttribute("aria-label", `Runs of ${terms}`);
}

function showMean(cell, /** @type {RunGroup["means"][string]} */ mean, /** @type {number} */ runs, write) {
  if (!cell.firstElementChild) cell.append(h("span"), h("span", { class: "runs-interval soft" }));
  const [figure, detail] = cell.children;
  setText(figure, mean ? write(mean.mean) : "");
  const isSpan = mean?.low != null && mean.high != null && mean.low !== mean.high;
  // The unit stands once.
  const span = isSpan && `${write(mean.low).replace(/ \D+$/, "")} to ${write(mean.high)}`;
  setText(detail, [span, mean && mean.count < runs && `of ${format.count(mean.count)}`].filter(Boolean).join(", "));
}
