// Tabs over panels, as in the ARIA Authoring Practices: one tab is in the order of Tab, arrow keys move among them.

import { byId } from "./dom.js";

/**
 * @param {HTMLElement} list a tablist, each of whose tabs has a name in `data-tab`, and controls a panel
 * @param {(name: string) => void} onChoice called when the user chose a tab
 * @returns {(name: string) => void} shows the tab of a name, or else the first one
 */
export function connectTabs(list, onChoice) {
  const tabs = /** @type {HTMLElement[]} */ ([...list.children]);
  const show = (/** @type {string} */ name) => {
    const shown = tabs.find((tab) => tab.dataset.tab === name) ?? tabs[0];
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === shown));
      tab.tabIndex = tab === shown ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = tab !== shown;
    }
  };
  const choose = (/** @type {HTMLElement} */ tab) => {
    show(tab.dataset.tab);
    onChoice(tab.dataset.tab);
  };
  for (const tab of tabs) tab.addEventListener("click", () => choose(tab));
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(/** @type {HTMLElement} */ (event.target));
    const next = { ArrowLeft: at - 1, ArrowRight: (at + 1) % tabs.length, Home: 0, End: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    tabs.at(next).focus();
    choose(tabs.at(next));
  });
  return show;
}
