// Tabs, and menus of what can be copied or saved from charts and tables.

import { copyText, fileName, rowsOf, rowsToCsv, saveCsv, toLatex, toMarkdown } from "../export.js";
import { h } from "../dom.js";
import { connectTabs } from "../tabs.js";
import { menu } from "../ui.js";

/**
 * @param {string} label what the menu is of
 * @param {[string, () => unknown][]} entries
 * @returns {HTMLElement} a button that opens a menu of actions
 */
export function moreMenu(label, entries) {
  const button = h("button", { type: "button", class: "quiet more", "aria-label": `Export ${label}`, "aria-expanded": "false" }, "⋯");
  const items = h("div", { class: "menu-items", hidden: true });
  items.append(...entries.map(([name, onclick]) => h("button", { type: "button", class: "quiet", onclick }, name)));
  const element = h("div", { class: "menu" }, button, items);
  menu(/** @type {HTMLButtonElement} */ (button), items);
  return element;
}

/** @returns {HTMLElement} a menu that copies or saves a table. */
export function tableMenu(/** @type {HTMLTableElement} */ table, /** @type {string} */ title) {
  return moreMenu(title, [
    ["Copy as Markdown", () => copyText(toMarkdown(rowsOf(table)), fileName(title, "md"))],
    ["Copy as LaTeX", () => copyText(toLatex(rowsOf(table), title), fileName(title, "tex"))],
    ["Save as CSV", () => saveCsv(rowsToCsv(rowsOf(table).map(({ cells }) => cells)), fileName(title, "csv"))],
  ]);
}

/** @returns {{ table: HTMLTableElement, scroll: HTMLElement }} an empty table in a region that scrolls. */
export function makeTable(/** @type {string} */ label) {
  const table = /** @type {HTMLTableElement} */ (h("table", {}, h("thead", {}, h("tr")), h("tbody")));
  return { table, scroll: h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table) };
}

/** @returns {HTMLElement} a part of a page with a heading and, beside it, a note and controls. */
export function makePart(/** @type {string} */ title, /** @type {(Node | false)[]} */ head, .../** @type {Node[]} */ content) {
  const heading = h("h2", {}, title);
  return h("section", { class: "side-part", "aria-label": title }, h("div", { class: "side-head" }, heading, head), content);
}

/**
 * Make tabs over panels.
 * @param {string[]} names
 * @param {(name: string) => void} onChoice
 */
export function makeTabs(names, onChoice) {
  const panels = names.map((name) => h("div", { role: "tabpanel", id: `side-${name}`, "aria-label": name, tabindex: -1 }));
  const tabs = names.map((name) => h("button", { type: "button", role: "tab", "aria-controls": `side-${name}`, "data-tab": name }, name));
  const list = h("div", { role: "tablist", class: "tabs", "aria-label": "Comparison" }, tabs);
  return { list, panels, choose: connectTabs(list, onChoice) };
}
