// A button that opens a few links below it; Escape, or a click elsewhere, closes them.

/** Have `button` open and close `items`. */
export function menu(/** @type {HTMLButtonElement} */ button, /** @type {HTMLElement} */ items) {
  function open(isOpen) {
    items.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
  }
  button.addEventListener("click", () => open(items.hidden));
  items.addEventListener("click", () => open(false));
  document.addEventListener("click", (event) => {
    const target = /** @type {Node} */ (event.target);
    if (!button.contains(target) && !items.contains(target)) open(false);
  });
  button.parentElement.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || items.hidden) return;
    open(false);
    button.focus();
  });
  button.parentElement.addEventListener("focusout", (event) => {
    const next = /** @type {Node | null} */ (event.relatedTarget);
    if (next && !button.parentElement.contains(next)) open(false);
  });
}
