// The tabs of a page. The address keeps the one that is shown.

import { byId, getParam, setParams } from "../dom.js";

const MOVES = { ArrowLeft: -1, ArrowRight: 1 };
const HIGHLIGHT_MS = 2500;

/** Tabs as in the ARIA Authoring Practices: one is in the order of Tab, arrow keys move among them. */
export class Tabs {
  #tabs = /** @type {HTMLElement[]} */ ([...byId("tabs").children]);

  constructor() {
    for (const tab of this.#tabs) tab.addEventListener("click", () => this.show(tab.dataset.tab));
    byId("tabs").addEventListener("keydown", (event) => this.#move(event));
    // Links to a tab, such as those of findings, do not load the page again.
    byId("main").addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='?tab=']");
      if (!link || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const { searchParams, hash } = new URL(link.href);
      this.show(searchParams.get("tab"));
      if (hash) highlight(byId(hash.slice(1)));
    });
    this.show(getParam("tab"));
  }

  show(/** @type {string} */ name) {
    const shown = this.#tabs.find((tab) => tab.dataset.tab === name) ?? this.#tabs[0];
    for (const tab of this.#tabs) {
      const isShown = tab === shown;
      tab.setAttribute("aria-selected", String(isShown));
      tab.tabIndex = isShown ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = !isShown;
    }
    setParams({ tab: shown === this.#tabs[0] ? "" : shown.dataset.tab });
  }

  #move(/** @type {KeyboardEvent} */ event) {
    const at = this.#tabs.indexOf(/** @type {HTMLElement} */ (event.target));
    const last = this.#tabs.length - 1;
    const next = { Home: 0, End: last }[event.key] ?? (at + (MOVES[event.key] ?? NaN) + last + 1) % (last + 1);
    if (Number.isNaN(next)) return;
    event.preventDefault();
    this.#tabs[next].focus();
    this.show(this.#tabs[next].dataset.tab);
  }
}

/** Scroll to an element, focus it, and mark it for a moment. */
function highlight(/** @type {HTMLElement} */ element) {
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "center" });
  element.classList.add("is-evidence");
  setTimeout(() => element.classList.remove("is-evidence"), HIGHLIGHT_MS);
}
