// Groups of runs as a grid: the number of runs, and the means of columns with their intervals.

import { h } from "../dom.js";
import * as format from "../format.js";
import { textOf, titleOf, writerOf } from "./columns.js";
import { queryOf, quoted } from "./filter.js";

/** @import { Column } from "../table.js" */
/** @import { Columns } from "./columns.js" */

const MEANS = ["time_to_target", "best", "throughput", "goodput", "duration"];
// Columns without a mean.
const TEXTS = ["outcome", "contention", "curve", "created", "*"];

/** @returns {string} a query that finds the runs of a group. */
export function termsOf(/** @type {RunGroup["values"]} */ values) {
  return Object.entries(values).map(([name, value]) => `${name}=${quoted(String(value ?? ""))}`).join(" ");
}

/** @returns {string[]} the columns whose means are requested. */
export function meansOf(/** @type {Pick<Columns, "ids" | "group">} */ { ids, group }) {
  return [...new Set([...MEANS, ...ids])].filter((name) => !group.includes(name) && !TEXTS.includes(name));
}

/** @returns {string | null} an order, if groups can be sorted by it. */
export function orderOf(/** @type {Columns} */ columns) {
  const sortable = [...columns.group, "runs", ...meansOf(columns)];
  return sortable.includes(columns.order.replace("-", "")) ? columns.order : null;
}

/** @returns {Column<RunGroup>[]} columns of groups that match a query; the first leads to a group's runs. */
export function groupColumns(/** @type {RunGroup[]} */ groups, /** @type {Columns} */ columns, /** @type {string} */ asked) {
  const column = (id, width, more) => ({ id, order: id, title: titleOf(id), isFixed: true, width: columns.widths[id] ?? width, ...more });
  const [first, ...others] = Object.keys(groups[0].values);
  const means = meansOf(columns).filter((name) => groups.some((group) => group.means[name]));
  return [
    column(first, 180, {
      ...{ isHead: true, isPinned: true },
      cell: ({ values }) => {
        const link = { href: queryOf(asked, termsOf(values)), class: "runs-group", "aria-label": `Runs of ${termsOf(values)}` };
        return h("a", link, textOf(values[first]));
      },
    }),
    ...others.map((id) => column(id, 180, { text: ({ values }) => textOf(values[id]) })),
    column("runs", 72, {
      ...{ title: "Runs", isFigure: true },
      cell: (group) => {
        const hint = "Versions of the code of these runs. To separate them, group by code and commit.";
        return [h("span", {}, format.count(group.runs)), h("span", { class: "runs-interval soft", title: hint }, versionsOf(group))];
      },
    }),
    ...means.map((id) => {
      const unit = columns.fields.find(({ name }) => name === id)?.unit;
      const known = groups.map((group) => group.means[id]).filter(Boolean);
      const write = writerOf(id, known.flatMap(({ mean, low, high }) => [mean, low, high]), unit);
      return column(id, 150, { isFigure: true, cell: ({ means, runs }) => means[id] && meanWith(means[id], runs, write) });
    }),
  ];
}

/** @returns {string} the number of versions of the code of a group's runs, if they are several. */
export function versionsOf(/** @type {Pick<RunGroup, "code_versions">} */ { code_versions: versions }) {
  return versions > 1 ? `${versions} versions` : "";
}

/** @returns {HTMLElement[]} a mean with its 95 % interval, and how many of the runs have a value. */
export function meanWith(/** @type {RunGroup["means"][string]} */ { count, mean, low, high }, /** @type {number} */ runs, write) {
  // The unit stands once.
  const span = low != null && high != null && low !== high && `${write(low).replace(/ \D+$/, "")} to ${write(high)}`;
  const detail = [span, count < runs && `of ${format.count(count)}`].filter(Boolean).join(", ");
  return [h("span", {}, write(mean)), h("span", { class: "runs-interval soft" }, detail)];
}
