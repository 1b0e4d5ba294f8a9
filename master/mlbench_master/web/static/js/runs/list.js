// The cells of the list of runs that are not text.

import { h, reconcile, setText } from "../dom.js";
import * as format from "../format.js";
import { setOutcome } from "../outcome.js";
import { originOf, sweptOf } from "../records.js";
import { AGE } from "../ui.js";
import { queryOf } from "./filter.js";

/** @import { Column } from "../table.js" */

const CONTROL = { isFixed: true, isPinned: true, isHiddenTitle: true };
// The end of a long name is shown, too: there runs of a set differ.
const [PLAIN, END_LENGTH] = [/^[\x20-\x7e]{16,}$/, 9];

/** @returns {Column<Run>[]} the columns before the chosen ones: what selects, the colour, the name. */
export function headColumns(/** @type {import("./selection.js").Selection} */ selection, /** @type {string} */ title, width = 0) {
  return [
    {
      ...{ id: "select", title: "Select", width: 36, ...CONTROL },
      make: ({ id }) => h("label", {}, h("input", { type: "checkbox", value: id, "aria-label": `Select run ${id}` })),
      fill: (cell, { id }) => (cell.querySelector("input").checked = selection.has(id)),
    },
    { id: "eye", title: "Shown in the charts", width: 26, ...CONTROL, ...selection.eyes() },
    {
      ...{ id: "name", title, order: "name", isHead: true, isPinned: true, width: width || 184, isResized: width > 0 },
      ...{ make: createName, fill: showName },
    },
  ];
}

/** @returns {Record<string, Partial<Column<Run>>>} columns that draw their cells. */
export function cellsOf(/** @type {import("./curves.js").Curves} */ curves) {
  const lastOf = (/** @type {Run} */ run) => (run.outcome ? null : curves.of(run)?.values.at(-1));
  return {
    outcome: { fill: (cell, run) => setOutcome(cell, run, run.values.best ?? lastOf(run)) },
    contention: { fill: showContention },
    curve: { fill: (cell, run) => curves.show(cell, run) },
    created: AGE,
  };
}

function createName(/** @type {Run} */ { id }) {
  const link = h("a", { href: `/runs/${id}` }, h("bdi", {}, h("span"), h("span")));
  return h("div", { class: "runs-name" }, link, h("span", { class: "soft" }, `#${id}`), h("span", { class: "runs-tags" }));
}

function showName(/** @type {HTMLElement} */ cell, /** @type {Run} */ run) {
  const [link, , tags] = cell.firstElementChild.children;
  const [start, end] = link.firstElementChild.children;
  const at = PLAIN.test(run.title) ? run.title.length - END_LENGTH : 0;
  setText(start, run.title.slice(0, at));
  setText(end, run.title.slice(at));
  cell.title = [run.title, sweptOf(run), originOf(run), run.replaced_by && `replaced by run ${run.replaced_by}`].filter(Boolean).join("\n");
  reconcile(tags, run.tags, String, (tag) => h("a", { href: queryOf(`tag:${tag}`) }, tag));
}

function showContention(/** @type {HTMLElement} */ cell, /** @type {Run} */ run) {
  if (run.disturbed === cell.hasChildNodes()) return;
  const label = `CPU contention ${format.percent(run.contention_share)}: results may be distorted`;
  cell.replaceChildren(...(run.disturbed ? [h("i", { class: "runs-contention", role: "img", "aria-label": label, title: label })] : []));
}
