// A list in which fields are chosen: as columns, in an order, or to group by.

import { h, reconcile, setText } from "../dom.js";

/**
 * @typedef {{ id: string, title: string, help: string, section: string }} Choice
 * @typedef {{ onToggle: (id: string) => void, onMove?: (id: string, before: string) => void, onPin?: (id: string) => void }} Actions
 */

/** A button that opens a list of fields, those chosen first. */
export class Picker {
  #search = h("input", { type: "search", placeholder: "Find a field…", "aria-label": "Find a field", autocomplete: "off", spellcheck: "false" });
  #list = h("ul", { class: "picker-list", role: "list" });
  #dragged = "";

  /**
   * @param {HTMLElement} button
   * @param {HTMLElement} panel a popover
   * @param {() => { choices: Choice[], chosen: string[], pinned: string[] }} read
   * @param {Actions} actions
   */
  constructor(button, panel, read, actions) {
    this.panel = panel;
    this.read = read;
    this.actions = actions;
    panel.prepend(this.#search, this.#list);
    button.addEventListener("click", () => {
      const { bottom, right } = button.getBoundingClientRect();
      panel.style.top = `${bottom + 4}px`;
      panel.style.left = `${Math.max(8, right - panel.offsetWidth)}px`;
      panel.togglePopover();
    });
    panel.addEventListener("toggle", () => {
      const isOpen = panel.matches(":popover-open");
      button.setAttribute("aria-expanded", String(isOpen));
      if (!isOpen) return;
      panel.style.left = `${Math.max(8, button.getBoundingClientRect().right - panel.offsetWidth)}px`;
      this.#search.value = "";
      this.show();
      this.#search.focus();
    });
    this.#search.addEventListener("input", () => this.show());
    if (actions.onMove) this.#listen();
  }

  /** Show the choices, if the list is open. */
  show() {
    if (!this.panel.matches(":popover-open")) return;
    const { choices, chosen, pinned } = this.read();
    const asked = this.#search.value.trim().toLowerCase();
    const byId = new Map(choices.map((choice) => [choice.id, choice]));
    const first = chosen.map((id) => byId.get(id) ?? { id, title: id, help: "", section: "" });
    const others = choices.filter(({ id }) => !chosen.includes(id));
    const isFound = ({ id, title, help }) => `${id} ${title} ${help}`.toLowerCase().includes(asked);
    const isChosen = ({ id }) => chosen.includes(id);
    let section = "";
    reconcile(this.#list, [...first, ...others].filter(isFound), ({ id }) => id, (choice) => this.#create(choice), (item, choice) => {
      const box = item.querySelector("input");
      box.checked = isChosen(choice);
      item.draggable = Boolean(this.actions.onMove) && box.checked;
      const heading = box.checked ? "" : choice.section;
      item.dataset.section = heading === section ? "" : heading;
      section = heading;
      const pin = item.querySelector("button");
      if (!pin) return;
      pin.hidden = !box.checked;
      pin.setAttribute("aria-pressed", String(pinned.includes(choice.id)));
    });
  }

  #create(/** @type {Choice} */ { id, title, help }) {
    const box = h("input", { type: "checkbox", onchange: () => this.actions.onToggle(id) });
    const text = h("span", {}, title);
    const name = title === id || !/^\w/.test(id) ? "" : id;
    const label = h("label", { title: help }, box, text, h("span", { class: "soft" }, name));
    const pin = this.actions.onPin && h("button", { type: "button", class: "quiet", "aria-label": `Pin ${title}`, onclick: () => this.actions.onPin(id) }, "Pin");
    return h("li", {}, label, pin);
  }

  // Chosen fields are moved by dragging, or by Alt and an arrow key.
  #listen() {
    const itemOf = ({ target }) => target.closest("li");
    this.#list.addEventListener("dragstart", (event) => (this.#dragged = itemOf(event)?.dataset.key ?? ""));
    this.#list.addEventListener("dragover", (event) => {
      if (this.#dragged && itemOf(event)?.draggable) event.preventDefault();
    });
    this.#list.addEventListener("drop", (event) => {
      event.preventDefault();
      this.actions.onMove(this.#dragged, itemOf(event).dataset.key);
    });
    this.#list.addEventListener("keydown", (event) => {
      const item = itemOf(event);
      const other = { ArrowUp: item?.previousElementSibling, ArrowDown: item?.nextElementSibling }[event.key];
      if (!event.altKey || !item?.draggable || !other?.draggable) return;
      event.preventDefault();
      this.actions.onMove(item.dataset.key, other.dataset.key);
      item.querySelector("input").focus();
    });
  }
}

/** Show on a button how many fields are chosen. */
export function setCount(/** @type {HTMLElement} */ button, /** @type {number} */ count) {
  if (!button.firstElementChild) button.append(h("span", { class: "soft" }));
  setText(button.firstElementChild, count || "");
}
