// Keys of the list of runs: they move the focus from row to row, and act on the row that has it.

import { byId } from "../dom.js";

const FIELDS = "input:not([type=checkbox]), select, textarea, dialog, [popover]";

/**
 * @param {Record<string, (event: KeyboardEvent) => void>} actions by key
 */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/** @type {Element} */ (event.target).closest(FIELDS) || document.querySelector("dialog[open]")) return;
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    act(event);
  });
  byId("keys").addEventListener("click", ({ target }) => {
    if (target === byId("keys")) byId("keys").close();
  });
}

/** @returns {number | undefined} the id of the run whose row has the focus. */
export function focusedRun() {
  const row = /** @type {HTMLElement} */ (document.activeElement?.closest("#runs tbody tr"));
  return row ? Number(row.dataset.key) : undefined;
}
