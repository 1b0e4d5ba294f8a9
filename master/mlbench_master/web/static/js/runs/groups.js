// Groups of runs as the rows of a table: how many they are, and the means of columns.

import { query } from "../api.js";
import { byId, h, reconcile, setText } from "../dom.js";
import * as format from "../format.js";
import { headCell, textOf } from "./columns.js";

/** @typedef {import("../records.js").Schemas["RunGroup"]} RunGroup */

// Besides the chosen columns.
const MEANS = ["duration", "time_to_target"];

/** @returns {string} a query that finds the runs of a group. */
export function termsOf(/** @type {RunGroup["values"]} */ values) {
  return Object.entries(values).map(([name, value]) => `${name}=${quoted(String(value ?? ""))}`).join(" ");
}

function quoted(text) {
  return /^[^\s"]+$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`;
}

/** @returns {string[]} the columns whose means are asked for. */
export function meansOf(/** @type {import("./columns.js").Columns} */ { names, group }) {
  return [...new Set([...MEANS, ...names])].filter((name) => !group.includes(name));
}

/** @returns {string | null} an order, if groups can be sorted by it. */
export function orderOf(/** @type {import("./columns.js").Columns} */ columns) {
  const shown = [...columns.group, "runs", ...meansOf(columns)];
  return shown.includes(columns.order.replace("-", "")) ? columns.order : null;
}

/**
 * Show groups, each with a link to its runs.
 * @param {RunGroup[]} groups in their order
 * @param {import("./columns.js").Columns} columns
 * @param {{ query: string | null, state: string | null }} wanted the query and state that all groups match
 */
export function showGroups(groups, columns, { query: asked, state }) {
  const { tHead, tBodies } = /** @type {HTMLTableElement} */ (byId("groups"));
  const keys = Object.keys(groups[0]?.values ?? {});
  const means = meansOf(columns).filter((name) => groups.some((group) => group.means[name]));
  reconcile(tHead.rows[0], [...keys, "runs", ...means], String, (name) => headCell(name, !keys.includes(name)));
  reconcile(tBodies[0], groups, ({ values }) => termsOf(values), () => h("tr"), (row, group) => {
    const terms = termsOf(group.values);
    const narrowed = [asked, terms].filter(Boolean).join(" ");
    const href = `/runs${query({ query: narrowed, state, columns: columns.names.join(",") || null })}`;
    reconcile(row, [...keys, "runs", ...means], String, (name) => cellOf(name, keys), (cell, name) => {
      if (name === keys[0]) showLink(cell.firstElementChild, textOf(group.values[name]), href, `Runs of ${terms}`);
      else if (keys.includes(name)) setText(cell, textOf(group.values[name]));
      else if (name === "runs") setText(cell, format.count(group.runs));
      else showMean(cell, group.means[name], group.runs);
    });
  });
}

function cellOf(/** @type {string} */ name, /** @type {string[]} */ keys) {
  if (name === keys[0]) return h("th", { scope: "row", class: "runs-name" }, h("a", { class: "runs-group" }));
  return h("td", { class: keys.includes(name) ? "runs-key" : "runs-value", "data-label": name });
}

function showLink(link, text, href, label) {
  setText(link, text);
  link.href = href;
  link.setAttribute("aria-label", label);
}

function showMean(cell, /** @type {RunGroup["means"][string]} */ mean, /** @type {number} */ runs) {
  if (!cell.firstElementChild) cell.append(h("span"), h("span", { class: "runs-detail soft" }));
  const [figure, detail] = cell.children;
  setText(figure, format.number(mean?.mean));
  const span = mean?.low != null && mean.high != null && `${format.number(mean.low)} to ${format.number(mean.high)}`;
  setText(detail, [span, mean && mean.count < runs && `of ${format.count(mean.count)}`].filter(Boolean).join(", "));
}
