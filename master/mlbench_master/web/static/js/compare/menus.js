// Menus of what can be copied or saved from charts and tables.

import { h } from "../dom.js";
import { copyText, fileName, rowsOf, rowsToCsv, save, toLatex, toMarkdown } from "../export.js";
import { menu } from "../ui.js";

/** Put a menu of actions into the head of the part of a page that `element` is in. */
export function addMenu(/** @type {Element} */ element, /** @type {string} */ label, /** @type {[string, () => unknown][]} */ entries) {
  const button = h("button", { type: "button", class: "quiet more", "aria-label": `Export ${label}`, "aria-expanded": "false" }, "⋯");
  const actions = entries.map(([name, onclick]) => h("button", { type: "button", class: "quiet", onclick }, name));
  const items = h("div", { class: "menu-items", hidden: true }, actions);
  element.closest(".side-part").querySelector(".side-head").append(h("div", { class: "menu" }, button, items));
  menu(button, items);
}

/** Add a menu that copies or saves a table. */
export function addTableMenu(/** @type {HTMLTableElement} */ table, /** @type {string} */ title) {
  addMenu(table, title, [
    ["Copy as Markdown", () => copyText(toMarkdown(rowsOf(table)), fileName(title, "md"))],
    ["Copy as LaTeX", () => copyText(toLatex(rowsOf(table), title), fileName(title, "tex"))],
    ["Save as CSV", () => save(rowsToCsv(rowsOf(table).map(({ cells }) => cells)), fileName(title, "csv"))],
  ]);
}
