// Elements shared by several pages: badges, copy buttons, errors, dialogs, tables, menus.

import { now } from "./api.js";
import { byId, h, reconcile, setText } from "./dom.js";
import { ago, moment } from "./format.js";

export { figure, fillTable } from "./table.js";

/**
 * @template Row
 * @typedef {import("./table.js").Column<Row>} Column
 */

/** @typedef {{ state: string, outcome?: Run["outcome"] }} Judged */

/** The cells of a column with the time since a record was created. */
export const AGE = {
  make: ({ created_at: at }) => h("time", { datetime: at, title: moment(at) }),
  fill: (cell, { created_at: at }) => setText(cell.firstElementChild, ago(at, now())),
};

/** @returns {HTMLElement} a coloured badge for the state of a run or the phase of a pod. */
export function badge(/** @type {string} */ state) {
  return h("span", { class: "badge", "data-state": state.toLowerCase() }, state);
}

export function setBadge(/** @type {HTMLElement} */ element, /** @type {string} */ state, text = state) {
  element.dataset.state = state.toLowerCase();
  setText(element, text);
}

/** @returns {HTMLElement} a badge for the outcome of a run, or for its state until the outcome is known. */
export function runBadge(/** @type {Judged} */ run) {
  const element = badge(run.state);
  setRunBadge(element, run);
  return element;
}

export function setRunBadge(/** @type {HTMLElement} */ element, /** @type {Judged} */ run) {
  setBadge(element, run.outcome?.kind ?? run.state, run.outcome?.title);
  element.title = run.outcome?.text ?? "";
}

/** Show figures in a list of descriptions: the title, text and explanation of each, and whether it is bad. */
export function showPairs(/** @type {HTMLElement} */ list, /** @type {[string, string, string?, boolean?][]} */ pairs) {
  const create = (/** @type {any[]} */ [title]) => h("div", {}, h("dt", {}, title), h("dd"));
  reconcile(list, pairs, ([title]) => title, create, (element, [, text, hint = "", isBad = false]) => {
    setText(element.lastElementChild, text);
    element.title = hint;
    element.lastElementChild.classList.toggle("bad-text", isBad);
  });
}

/** @returns {HTMLButtonElement} a button that copies what `text()` returns. */
export function copyButton(/** @type {() => string} */ text, /** @type {string} */ what) {
  const button = h("button", { type: "button", class: "quiet" });
  const say = (word) => {
    setText(button, word);
    button.setAttribute("aria-label", `${word} ${what}`);
  };
  button.addEventListener("click", async () => {
    // Browsers have no clipboard on pages served by plain HTTP from another machine.
    const isCopied = await navigator.clipboard?.writeText(text()).then(() => true, () => false);
    say(isCopied ? "Copied" : "Select and copy");
    setTimeout(() => say("Copy"), 2000);
  });
  say("Copy");
  return button;
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
