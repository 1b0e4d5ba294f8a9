// Small parts that several pages show: badges of states, copy buttons, what to say of no content.

import { h, setText } from "./dom.js";

/** @returns {HTMLElement} a state of a run, or the phase of a pod, as word and colour. */
export function badge(/** @type {string} */ state) {
  return h("span", { class: "badge", "data-state": state.toLowerCase() }, state);
}

/** Give a badge another state. */
export function setBadge(/** @type {HTMLElement} */ element, /** @type {string} */ state) {
  element.dataset.state = state.toLowerCase();
  setText(element, state);
}

/** @returns {boolean} whether a run may still change. */
export function isActive(/** @type {{ state: string }} */ run) {
  return run.state === "INITIALIZED" || run.state === "STARTED";
}

/** @returns {string} what a run waits for, also to be counted; empty where it is for nothing. */
export function waitingFor(/** @type {{ state: string, waiting: string }} */ run) {
  return run.waiting || (run.state === "INITIALIZED" ? "waits for its turn" : "");
}

/** @returns {HTMLButtonElement} copies what `text()` answers. */
export function copyButton(/** @type {() => string} */ text, /** @type {string} */ what) {
  const button = h("button", { type: "button", class: "quiet" });
  const say = (word) => {
    setText(button, word);
    button.setAttribute("aria-label", `${word} ${what}`);
  };
  button.addEventListener("click", async () => {
    say((await copy(text())) ? "Copied" : "Select and copy");
    setTimeout(() => say("Copy"), 2000);
  });
  say("Copy");
  return button;
}

/** @returns {HTMLElement} what is said where nothing is to be shown, and what to do about it. */
export function emptyState(/** @type {string} */ title, ...rest) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), ...rest);
}

/** @returns {HTMLElement} what went wrong, with a button that tries again. */
export function errorState(/** @type {Error} */ error, /** @type {() => void} */ again) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    h("p", { class: "empty-title" }, error.message),
    h("button", { type: "button", onclick: again }, "Try again"),
  );
}

async function copy(text) {
  try {
    // There is none where the page came over plain HTTP from another machine.
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
