// Additional columns of the table of runs, and its order.

import { byId, getParam, h, setOptions, setParams, setText } from "../dom.js";
import * as format from "../format.js";

/** @import { Schemas } from "../records.js" */

const STORED = "mlbench-run-columns";
const STORED_HIDDEN = "mlbench-run-hidden";
const DATE = /^\d{4}-\d\d-\d\dT/;

/** @returns {string} a value of a field, for people. */
export function textOf(/** @type {unknown} */ value) {
  if (value == null || value === "") return format.NONE;
  if (typeof value === "number") return format.number(value);
  const text = String(value);
  return DATE.test(text) ? format.moment(text) : text;
}

/** @returns {string} the order after a click on the head of a field: down, up, the newest first. */
export function nextOrder(/** @type {string} */ order, /** @type {string} */ field) {
  if (order === `-${field}`) return field;
  return order === field ? "" : `-${field}`;
}

/**
 * What the last word of a text may become: the whole text with each, as a datalist wants it.
 * @param {string} text
 * @param {string[]} names
 * @returns {string[]}
 */
export function completions(text, names) {
  const last = text.match(/[^\s,]*$/)[0];
  const begun = names.filter((name) => last && name.startsWith(last) && name !== last);
  return begun.map((name) => text.slice(0, text.length - last.length) + name);
}

/** @returns {HTMLElement} a head by which a table is sorted. */
export function headCell(/** @type {string} */ name, isFigure = true) {
  const button = h("button", { type: "button", class: "runs-sort", "data-order": name }, name);
  return h("th", { scope: "col", class: isFigure && "figure", "data-field": name }, button);
}

/**
 * The chosen columns, the order, and what runs are grouped by, as the address says or, of columns,
 * this browser remembers.
 */
export class Columns {
  order = getParam("order");
  group = listed(getParam("group"));
  /** The table's own columns that are not shown. */
  hidden = listed(getParam("hide") || localStorage.getItem(STORED_HIDDEN) || "");
  /** @type {string[]} */
  names = listed(getParam("columns") || localStorage.getItem(STORED) || "");
  /** @type {Schemas["RunField"][]} */
  fields = [];
  /** @type {HTMLTableRowElement[]} */
  #rows = ["runs", "groups"].map((id) => byId(id).tHead.rows[0]);
  #input = byId("columns");
  #group = byId("group");
  #sort = byId("order");

  constructor(/** @type {() => void} */ onChange) {
    this.#input.value = this.names.join(", ");
    this.#input.addEventListener("change", () => {
      this.names = listed(this.#input.value);
      localStorage.setItem(STORED, this.names.join(","));
      onChange();
    });
    this.#group.value = this.group.join(", ");
    this.#group.addEventListener("change", () => {
      this.group = listed(this.#group.value);
      onChange();
    });
    for (const row of this.#rows) {
      row.addEventListener("click", ({ target }) => {
        const button = /** @type {HTMLElement} */ (target).closest("button");
        if (!button) return;
        this.order = nextOrder(this.order, button.dataset.order);
        onChange();
      });
    }
    this.#sort.addEventListener("change", () => {
      this.order = this.#sort.value;
      onChange();
    });
    const ownHeads = [...this.#rows[0].cells].filter((cell) => "column" in cell.dataset);
    byId("hides").append(...ownHeads.map((head) => this.#toggle(head)));
    for (const id of ["search", "columns", "group"]) {
      const list = byId(`${id}-names`);
      byId(id).addEventListener("input", ({ target }) => {
        const names = this.fields.map(({ name }) => name);
        setOptions(list, completions(target.value, names));
      });
    }
  }

  /** Show the column heads and the order, and write both to the address. */
  show() {
    const [runs] = this.#rows;
    const [columns, group, hide] = [this.names, this.group, this.hidden].map((names) => names.join(","));
    setParams({ columns, order: this.order, group, hide });
    byId("runs").dataset.hidden = this.hidden.join(" ");
    const shown = [...runs.cells].filter((cell) => "field" in cell.dataset);
    if (shown.map((cell) => cell.dataset.field).join() !== this.names.join()) {
      for (const cell of shown) cell.remove();
      runs.append(...this.names.map((name) => headCell(name)));
    }
    for (const cell of this.#rows.flatMap((row) => [...row.cells])) {
      this.#describe(cell);
      const field = cell.querySelector("button")?.dataset.order;
      if (field && this.order.replace("-", "") === field)
        cell.setAttribute("aria-sort", this.order === field ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
    this.#offerOrders();
  }

  /** Offer the sort order in a list, because a narrow screen has no column heads. */
  #offerOrders() {
    const row = this.#rows[this.group.length ? 1 : 0];
    const buttons = [...row.querySelectorAll("button")];
    const titles = new Map(buttons.map((button) => [button.dataset.order, button.textContent]));
    const values = ["", ...[...titles.keys()].flatMap((name) => [`-${name}`, name])];
    const textOf = (/** @type {string} */ value) =>
      value ? `${titles.get(value.replace("-", ""))} ${value[0] === "-" ? "↓" : "↑"}` : "Newest first";
    setOptions(this.#sort, values, textOf);
    this.#sort.value = this.order;
  }

  #toggle(/** @type {HTMLElement} */ { dataset, textContent }) {
    const isHidden = this.hidden.includes(dataset.column);
    const box = h("input", { type: "checkbox", checked: isHidden, "aria-label": `Hide ${textContent}` });
    box.addEventListener("change", ({ target }) => {
      const others = this.hidden.filter((name) => name !== dataset.column);
      this.hidden = target.checked ? [...others, dataset.column] : others;
      localStorage.setItem(STORED_HIDDEN, this.hidden.join(","));
      this.show();
    });
    return h("label", {}, box, ` ${textContent}`);
  }

  /** Set the description and unit of a column head, if they are known. */
  #describe(/** @type {HTMLElement} */ cell) {
    const field = this.fields.find(({ name }) => name === cell.dataset.field);
    if (!field) return;
    cell.title = field.help;
    setText(cell.firstElementChild, field.unit ? `${field.name} (${field.unit})` : field.name);
  }
}

function listed(/** @type {string} */ text) {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}
