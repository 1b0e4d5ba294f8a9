// The list of runs: a row for each, on a narrow screen of two lines.

import { h, reconcile, setText } from "../dom.js";
import * as format from "../format.js";
import { setOutcome } from "../outcome.js";
import { originOf, sweptOf } from "../records.js";
import { showContention, titleOf } from "./columns.js";

/**
 * @import { Run } from "../records.js"
 * @import { Column } from "../table.js"
 */

const CONTROL = { isFixed: true, isPinned: true, isHiddenTitle: true };
const [SELECT_PX, EYE_PX, NAME_PX] = [36, 26, 184];

// The end of a long name is shown, too: there runs of a set differ.
const [PLAIN, END_LENGTH] = [/^[\x20-\x7e]{16,}$/, 9];

/**
 * What cells of the list need to know besides their run.
 * @typedef {{
 *   selection: import("./selection.js").Selection, curves: import("./curves.js").Curves,
 *   title: string, nameWidth?: number, now: number
 * }} Context
 */

/** @returns {Column<Run>[]} the columns before the chosen ones: what selects, the colour, the name. */
export function headColumns(/** @type {Context} */ { selection, title, nameWidth }) {
  return [
    { id: "select", title: "Select", width: SELECT_PX, ...CONTROL, fill: (cell, run) => showBox(cell, run, selection.has(run.id)) },
    { id: "eye", title: "Shown in the charts", width: EYE_PX, ...CONTROL, fill: (cell, run) => selection.showEye(cell, run) },
    { id: "name", title, order: "name", isHead: true, isPinned: true, isFixed: false, width: nameWidth ?? NAME_PX, isResized: Boolean(nameWidth), fill: showName },
  ];
}

/** @returns {Record<string, (cell: HTMLElement, run: Run) => void>} columns that draw their cells. */
export function cellsOf(/** @type {Context} */ { curves, now }) {
  return {
    outcome: (cell, run) => showOutcome(cell, run, curves),
    contention: showContention,
    curve: (cell, run) => curves.show(cell, run),
    created: (cell, run) => showCreated(cell, run, now),
  };
}

/**
 * @param {Column<Run>[]} columns the chosen ones
 * @returns {Column<Run>[]} those of a narrow screen: the outcome, and all others in a second line
 */
export function narrowColumns(columns) {
  const [drawn, texts] = [columns.filter(({ id }) => id === "outcome"), columns.filter(({ id }) => id !== "outcome" && id !== "curve")];
  return [...drawn, { id: "line", title: "", width: 0, fill: (cell, run) => showLine(cell, run, texts) }];
}

function showBox(cell, /** @type {Run} */ run, isSelected) {
  if (!cell.firstElementChild) {
    const box = h("input", { type: "checkbox", value: run.id, "aria-label": `Select run ${run.id}` });
    cell.append(h("label", {}, box));
  }
  cell.querySelector("input").checked = isSelected;
}

function showName(cell, /** @type {Run} */ run) {
  if (!cell.firstElementChild) {
    const link = h("a", { href: `/runs/${run.id}` }, h("bdi", {}, h("span"), h("span")));
    cell.append(h("div", { class: "runs-name" }, link, h("span", { class: "soft" }, `#${run.id}`), h("span", { class: "runs-tags" })));
  }
  const [link, , tags] = cell.firstElementChild.children;
  const [start, end] = link.firstElementChild.children;
  const at = PLAIN.test(run.title) ? Math.max(0, run.title.length - END_LENGTH) : 0;
  setText(start, run.title.slice(0, at));
  setText(end, run.title.slice(at));
  cell.title = [run.title, sweptOf(run), originOf(run), run.replaced_by && `replaced by run ${run.replaced_by}`].filter(Boolean).join("\n");
  tags.hidden = !run.tags.length;
  reconcile(tags, run.tags, String, (tag) => h("a", { href: `/runs?query=${encodeURIComponent(`tag:${tag}`)}` }, tag));
}

function showOutcome(cell, /** @type {Run} */ run, curves) {
  if (!cell.firstElementChild) cell.append(h("span", { class: "badge" }));
  const best = run.values.best ?? (run.outcome ? null : curves.lastOf(run));
  setOutcome(/** @type {HTMLElement} */ (cell.firstElementChild), run, best);
}

function showCreated(cell, /** @type {Run} */ { created_at: created }, now) {
  if (!cell.firstElementChild) cell.append(h("time", { datetime: created, title: format.moment(created) }));
  setText(cell.firstElementChild, format.ago(created, now));
}

function showLine(cell, run, columns) {
  reconcile(cell, columns, ({ id }) => id, ({ id }) => h("span", { "data-column": id, class: "runs-part" }, h("span", { class: "soft" }, titleOf(id)), h("span")), (part, column) => {
    const value = /** @type {HTMLElement} */ (part.lastElementChild);
    column.fill(value, run);
    part.hidden = !value.hasChildNodes() || !(value.textContent || value.querySelector("svg"));
  });
}
