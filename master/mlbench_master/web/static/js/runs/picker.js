// A list to choose fields from: columns, their order, or groups.

import { draw, h, setText } from "../dom.js";
import { moveByDrag } from "../table.js";

/**
 * Fill the popover of a button with a list of fields, chosen fields first. `read` returns the choices, the
 * chosen ids and the pinned ids. Calls `onToggle(id)` and, if given, `onPin(id)` and `onMove(id, before)`.
 * @returns {() => void} shows the number of chosen fields, and the choices if the list is open
 */
export function picker(/** @type {HTMLButtonElement} */ button, read, { onToggle, onPin = undefined, onMove = undefined }) {
  const panel = /** @type {HTMLElement} */ (button.popoverTargetElement);
  const search = panel.querySelector("input");
  const list = panel.querySelector("ul");
  function show() {
    const { choices, chosen, pinned } = read();
    setText(button.firstElementChild, chosen.length || "");
    if (!panel.matches(":popover-open")) return;
    const first = chosen.map((id) => choices.find((choice) => choice.id === id) ?? { id, title: id, help: "", section: "" });
    const others = choices.filter(({ id }) => !chosen.includes(id));
    const asked = search.value.trim().toLowerCase();
    const found = [...first, ...others].filter(({ id, title, help }) => `${id} ${title} ${help}`.toLowerCase().includes(asked));
    let section = "";
    draw(list, found, ({ id }) => id, ({ id, title, help, section: own }) => {
      const checked = chosen.includes(id);
      const heading = checked || own === section ? "" : own;
      section = checked ? "" : own;
      const box = h("input", { type: "checkbox", checked, onchange: () => onToggle(id) });
      const name = title === id || !/^\w/.test(id) ? "" : id;
      const pin = { class: "quiet", "aria-label": `Pin ${title}`, "aria-pressed": String(pinned.includes(id)), onclick: () => onPin(id) };
      return h(
        "li",
        { draggable: onMove && checked ? "true" : null, "data-section": heading },
        h("label", { title: help }, box, h("span", {}, title), h("span", { class: "soft" }, name)),
        onPin && h("button", { type: "button", ...pin }, "Pin"),
      );
    });
  }
  panel.addEventListener("beforetoggle", () => {
    const { bottom, right } = button.getBoundingClientRect();
    panel.style.top = `${bottom + 4}px`;
    panel.style.setProperty("--right", `${innerWidth - right}px`);
    search.value = "";
  });
  panel.addEventListener("toggle", show);
  search.addEventListener("input", show);
  if (!onMove) return show;
  moveByDrag(list, onMove);
  list.addEventListener("keydown", (event) => {
    const item = /** @type {HTMLElement} */ (event.target).closest("li");
    const other = /** @type {HTMLElement} */ ({ ArrowUp: item.previousElementSibling, ArrowDown: item.nextElementSibling }[event.key]);
    if (!event.altKey || !item.draggable || !other?.draggable) return;
    event.preventDefault();
    onMove(item.dataset.key, other.dataset.key);
    item.querySelector("input").focus();
  });
  return show;
}
