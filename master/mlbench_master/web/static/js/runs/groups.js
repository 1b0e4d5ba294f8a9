// Groups of runs as a grid: how many they are, and the means of columns with their intervals.

import { h, setText } from "../dom.js";
import * as format from "../format.js";
import { textOf, titleOf, writerOf } from "./columns.js";
import { queryOf, quoted } from "./filter.js";

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
  const sortable = [...columns.group, "runs", ...meansOf(columns)];
  return sortable.includes(columns.order.replace("-", "")) ? columns.order : null;
}

/**
 * @param {RunGroup[]} groups in their order
 * @param {import("./columns.js").Columns} columns
 * @param {string} asked the query that all groups match
 * @returns {Column<RunGroup>[]} columns of the groups; the first leads to a group's runs
 */
export function groupColumns(groups, columns, asked) {
  const column = (id, width, more) => ({ id, order: id, title: titleOf(id), isFixed: true, width: columns.widths[id] ?? width, ...more });
  const [first, ...others] = Object.keys(groups[0].values);
  const means = meansOf(columns).filter((name) => groups.some((group) => group.means[name]));
  return [
    column(first, KEY_PX, {
      ...{ isHead: true, isPinned: true },
      make: ({ values }) => h("a", { class: "runs-group", "aria-label": `Runs of ${termsOf(values)}` }, textOf(values[first])),
      fill: (cell, { values }) => (cell.firstElementChild.href = queryOf(asked, termsOf(values))),
    }),
    ...others.map((id) => column(id, KEY_PX, { text: ({ values }) => textOf(values[id]) })),
    column("runs", RUNS_PX, { title: "Runs", isFigure: true, text: ({ runs }) => format.count(runs) }),
    ...means.map((id) => {
      const unit = columns.fields.find(({ name }) => name === id)?.unit;
      const known = groups.map((group) => group.means[id]).filter(Boolean);
      const write = writerOf(id, known.flatMap(({ mean, low, high }) => [mean, low, high]), unit);
      return column(id, MEAN_PX, {
        isFigure: true,
        make: () => [h("span"), h("span", { class: "runs-interval soft" })],
        fill: ({ children }, group) => showMean(children, group.means[id], group.runs, write),
      });
    }),
  ];
}

function showMean([figure, detail], /** @type {RunGroup["means"][string]} */ mean, /** @type {number} */ runs, write) {
  setText(figure, mean ? write(mean.mean) : "");
  const isSpan = mean?.low != null && mean.high != null && mean.low !== mean.high;
  // The unit stands once.
  const span = isSpan && `${write(mean.low).replace(/ \D+$/, "")} to ${write(mean.high)}`;
  setText(detail, [span, mean && mean.count < runs && `of ${format.count(mean.count)}`].filter(Boolean).join(", "));
}
