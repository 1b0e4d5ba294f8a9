// Elements shared by several pages: badges, errors, dialogs, tables, menus, tabs.

import { now } from "./api.js";
import { byId, draw, getParam, h, setParams, setText } from "./dom.js";
import { ago, moment } from "./format.js";

export { durations, figure, fillTable, makeTable } from "./table.js";

const STATE_TITLES = { INITIALIZED: "queued", STARTED: "running" };
/** The cells of a column with the time since a record was created. */
export const AGE = { cell: ({ created_at: at }) => h("time", { datetime: at, title: moment(at) }, ago(at, now())) };

/** @returns {HTMLElement} a coloured badge for the outcome or state of a run, or the phase of a pod. */
export function badge(/** @type {string} */ state, text = state, title = "") {
  return h("span", { class: "badge", "data-state": state.toLowerCase(), title }, text);
}

/** Change a badge. */
export function setBadge(/** @type {HTMLElement} */ element, /** @type {string} */ state, text = state, title = "") {
  element.dataset.state = state.toLowerCase();
  element.title = title;
  setText(element, text);
}

/** @returns {HTMLElement} a badge for the outcome of a run, or for its state until the outcome is known. */
export function runBadge(/** @type {{ state: string, outcome?: Run["outcome"] }} */ { state, outcome }) {
  return badge(outcome?.kind ?? state, outcome?.title ?? STATE_TITLES[state] ?? state.toLowerCase(), outcome?.text);
}

/** Show figures in a list of descriptions: the title, text and explanation of each, and whether it is bad. */
export function showPairs(/** @type {HTMLElement} */ list, /** @type {any[][]} */ pairs) {
  draw(list, pairs, ([title]) => title, ([title, text, hint, isBad]) => {
    return h("div", { title: hint }, h("dt", {}, title), h("dd", { class: isBad && "bad-text" }, text));
  });
}

/** @returns {HTMLElement} an error, with a button that tries again. */
export function errorState(/** @type {Error} */ error, /** @type {() => void} */ retry) {
  const button = h("button", { type: "button", onclick: retry }, "Retry");
  return h("div", { class: "empty", role: "alert" }, h("p", { class: "empty-title" }, error.message), button);
}

/** @returns {(error: Error) => void} shows an error in the part `problem` of a page until the user retries. */
export function problemWith(/** @type {() => void} */ retry) {
  return (error) => {
    if (byId("loading")) byId("loading").hidden = true;
    byId("problem").replaceChildren(errorState(error, () => {
      byId("problem").replaceChildren();
      retry();
    }));
  };
}

/**
 * Ask before something that cannot be undone, such as "Delete this run?", with its consequences and
 * the label of the button that does it. @returns {Promise<boolean>} whether to do it
 */
export function confirm(/** @type {string} */ title, /** @type {string} */ text, /** @type {string} */ action) {
  const dialog = byId("confirm");
  setText(dialog.querySelector("h2"), title);
  setText(dialog.querySelector("p"), text);
  setText(dialog.querySelector(".danger"), action);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Let `button` open and close the links in `items` beside it; Escape and a click elsewhere close them. */
export function menu(/** @type {HTMLButtonElement} */ button, /** @type {HTMLElement} */ items) {
  const place = button.parentElement;
  const open = (/** @type {boolean} */ isOpen) => {
    items.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
  };
  button.addEventListener("click", () => open(items.hidden));
  items.addEventListener("click", () => open(false));
  for (const type of ["click", "focusin"]) {
    document.addEventListener(type, ({ target }) => place.contains(/** @type {Node} */ (target)) || open(false));
  }
  place.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || items.hidden) return;
    open(false);
    button.focus();
  });
}

/**
 * Connect a tablist as in the ARIA Authoring Practices: one tab is in the order of Tab, arrow keys move among them.
 * A tab has a name in `data-tab`, and controls a panel. The page's address keeps the shown tab, unless it is the
 * first one. @returns a function that shows the tab of a name
 */
export function connectTabs(/** @type {HTMLElement} */ list) {
  const tabs = /** @type {HTMLElement[]} */ ([...list.children]);
  const show = (/** @type {string} */ name) => {
    const shown = tabs.find((tab) => tab.dataset.tab === name) ?? tabs[0];
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === shown));
      tab.tabIndex = tab === shown ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = tab !== shown;
    }
    setParams({ tab: shown === tabs[0] ? "" : shown.dataset.tab });
  };
  for (const tab of tabs) tab.addEventListener("click", () => show(tab.dataset.tab));
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(/** @type {HTMLElement} */ (event.target));
    const next = { ArrowLeft: at - 1, ArrowRight: (at + 1) % tabs.length, Home: 0, End: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    tabs.at(next).focus();
    show(tabs.at(next).dataset.tab);
  });
  show(getParam("tab"));
  return show;
}
