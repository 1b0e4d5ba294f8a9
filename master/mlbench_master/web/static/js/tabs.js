// Tabs over panels, as in the ARIA Authoring Practices: one tab is in the order of Tab, arrow keys move among them.

import { byId } from "./dom.js";

/**
 * Connect a tablist, each of whose tabs has a name in `data-tab`, and controls a panel. `onChoice` is called
 * when the user chose a tab. @returns a function that shows the tab of a name, or else the first one
 */
export function connectTabs(/** @type {HTMLElement} */ list, /** @type {(name: string) => void} */ onChoice) {
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
