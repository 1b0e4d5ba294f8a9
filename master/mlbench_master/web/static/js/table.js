// Tables: rows keep their elements. A grid's columns are sorted, moved, resized and pinned, and only
// its rows in sight have elements.

import { h, reconcile, setText } from "./dom.js";

/**
 * A column: `text` returns a cell's text, or `fill` puts elements into the cell. Without an `id`
 * its title identifies it. A grid sorts by the field `order` when its head is clicked. The `width` is
 * in pixels. Pinned columns stay in sight, fixed ones in place.
 * @template Row
 * @typedef {{ title: string, id?: string, hint?: string, isFigure?: boolean, isHead?: boolean,
 *   order?: string, width?: number, isResized?: boolean, isPinned?: boolean, isFixed?: boolean,
 *   isHiddenTitle?: boolean, text?: (row: Row) => string, fill?: (cell: HTMLElement, row: Row) => void }} Column
 */

// Rows beyond those in sight, so that scrolling shows no gap.
const AROUND = 8;
const MIN_WIDTH = 40;
const SPACERS = ["above", "below"];
const MAX_ELASTIC = 360;
/** What is left of the width. */
const REST = { id: "rest", title: "", width: 0, isFixed: true, text: () => "" };

const idOf = (/** @type {Column<any>} */ { id, title }) => id ?? title;

/** @returns {Column<any>} a column of figures, which are aligned. */
export function figure(/** @type {string} */ title, /** @type {(row: any) => string} */ text, hint = undefined) {
  return { title, text, hint, isFigure: true };
}

/**
 * Fill a table that has a thead with one row, and a tbody.
 * @template Row
 * @param {HTMLTableElement} table
 * @param {Column<Row>[]} columns
 * @param {Row[]} rows
 * @param {(row: Row) => unknown} keyOf
 */
export function fillTable(table, columns, rows, keyOf) {
  reconcile(table.tHead.rows[0], columns, idOf, createHead, (cell, column) => setText(cell, column.title));
  reconcile(table.tBodies[0], rows, keyOf, () => h("tr"), (line, row) => fillRow(line, columns, row));
}

function fillRow(line, columns, row) {
  reconcile(line, columns, idOf, createCell, (cell, column) => {
    if (column.fill) column.fill(cell, row);
    else setText(cell, column.text(row));
  });
}

function createHead(/** @type {Column<any>} */ column) {
  return h("th", { scope: "col", class: column.isFigure && "figure", title: column.hint });
}

function createCell(/** @type {Column<any>} */ column) {
  if (column.isHead) return h("th", { scope: "row" });
  return h("td", { class: column.isFigure && "figure", "data-column": column.id });
}

/**
 * A table inside an element that scrolls, whose rows have one height.
 * @template Row
 */
export class Table {
  /** Pixels of a row. */
  rowHeight = 34;
  /** @type {Column<Row>[]} */
  #columns = [];
  /** @type {Row[]} */
  #rows = [];
  #order = "";
  #isGripped = false;
  #dragged = "";

  /**
   * @param {HTMLTableElement} table
   * @param {(row: Row) => unknown} keyOf
   * @param {{ onSort: (field: string) => void, onMove: (id: string, before: string) => void,
   *   onResize: (id: string, width: number | null) => void, onScroll?: (top: number, bottom: number) => void,
   *   onRow?: (line: HTMLElement, row: Row) => void }} actions what a user does, and each drawn row
   */
  constructor(table, keyOf, actions) {
    this.table = table;
    this.keyOf = keyOf;
    this.actions = actions;
    this.scroller = table.parentElement;
    this.sizes = table.insertBefore(h("colgroup"), table.tHead);
    this.scroller.addEventListener("scroll", () => {
      // Read first: afterwards the browser would have to lay out the new rows for it.
      const { scrollTop, clientHeight } = this.scroller;
      this.#drawRows();
      actions.onScroll?.(scrollTop, scrollTop + clientHeight);
    }, { passive: true });
    new ResizeObserver(() => {
      this.#place();
      this.#drawRows();
    }).observe(this.scroller);
    this.#listen(table.tHead.rows[0]);
  }

  /** Show rows under columns, sorted by a field, or with `-` before it downwards. */
  draw(/** @type {Column<Row>[]} */ columns, /** @type {Row[]} */ rows, order = "") {
    [this.#columns, this.#rows, this.#order] = [[...columns, REST], rows, order];
    this.#place();
    reconcile(this.table.tHead.rows[0], this.#columns, idOf, createSortHead, (cell, column) => this.#fillHead(cell, column));
    this.#drawRows();
  }

  /** Scroll until a row is in sight. @returns {HTMLElement | null} the row */
  show(/** @type {unknown} */ key) {
    const [top, head] = [this.#rows.findIndex((row) => this.keyOf(row) === key) * this.rowHeight, this.table.tHead.offsetHeight];
    if (top < 0) return null;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight - head)
      this.scroller.scrollTop = top + this.rowHeight - clientHeight + head;
    this.#drawRows();
    return this.table.tBodies[0].querySelector(`[data-key="${key}"]`);
  }

  // Give columns their widths, and pinned ones their distance from the left.
  #place() {
    const total = (widths) => widths.reduce((sum, width) => sum + width, 0);
    const free = this.scroller.clientWidth - total(this.#columns.map(({ width }) => width));
    // The names take what is left, unless somebody has resized them.
    const widths = this.#columns.map(({ width, isHead, isResized }) =>
      isHead && !isResized ? Math.max(width, Math.min(MAX_ELASTIC, width + free)) : width,
    );
    reconcile(this.sizes, widths.map((width, i) => ({ width, i })), ({ i }) => i, () => h("col"), (element, { width, i }) => {
      element.style.width = this.#columns[i] === REST ? "" : `${width}px`;
    });
    this.table.style.minWidth = `${total(widths)}px`;
    this.lefts = widths.map((_, i) => total(widths.slice(0, i)));
  }

  #pin(/** @type {HTMLElement} */ cell, /** @type {number} */ i) {
    const { isPinned } = this.#columns[i];
    cell.classList.toggle("pinned", Boolean(isPinned));
    cell.style.left = isPinned ? `${this.lefts[i]}px` : "";
  }

  #fillHead(cell, column) {
    if (column === REST) return;
    setText(cell.querySelector("button, span"), column.title);
    cell.title = column.hint ?? "";
    const isUp = this.#order === column.order;
    if (column.order && (isUp || this.#order === `-${column.order}`))
      cell.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
    this.#pin(cell, this.#columns.indexOf(column));
  }

  #drawRows() {
    const { scrollTop, clientHeight } = this.scroller;
    const { rowHeight } = this;
    const from = Math.max(0, Math.floor(scrollTop / rowHeight) - AROUND);
    const to = Math.min(this.#rows.length, Math.ceil((scrollTop + clientHeight) / rowHeight) + AROUND);
    const heights = { above: from * rowHeight, below: (this.#rows.length - to) * rowHeight };
    const [above, below] = SPACERS;
    this.table.setAttribute("aria-rowcount", String(this.#rows.length + 1));
    const items = [above, ...this.#rows.slice(from, to), below];
    const keyOf = (item) => (SPACERS.includes(item) ? item : this.keyOf(item));
    let index = from + 1;
    reconcile(this.table.tBodies[0], items, keyOf, () => h("tr"), (line, item) => {
      if (SPACERS.includes(item)) {
        line.hidden = !heights[item];
        line.style.height = `${heights[item]}px`;
        return;
      }
      index += 1;
      line.setAttribute("aria-rowindex", String(index));
      fillRow(line, this.#columns, item);
      for (let i = 0; i < this.#columns.length; i++) this.#pin(/** @type {HTMLElement} */ (line.children[i]), i);
      this.actions.onRow?.(line, item);
    });
  }

  #listen(/** @type {HTMLElement} */ head) {
    const cellOf = ({ target }) => target.closest("th");
    const columnOf = (event) => this.#columns.find((column) => idOf(column) === cellOf(event)?.dataset.key);
    const isGrip = ({ target }) => target.classList.contains("grip");
    head.addEventListener("click", (event) => {
      const order = /** @type {HTMLElement} */ (event.target).closest("button") && columnOf(event)?.order;
      if (order) this.actions.onSort(order);
    });
    head.addEventListener("dblclick", (event) => {
      if (isGrip(event)) this.actions.onResize(idOf(columnOf(event)), null);
    });
    head.addEventListener("pointerdown", (event) => {
      if (!isGrip(event)) return;
      const [grip, column] = [/** @type {HTMLElement} */ (event.target), columnOf(event)];
      const start = cellOf(event).offsetWidth - event.clientX;
      const widthAt = ({ clientX }) => Math.max(MIN_WIDTH, start + clientX);
      grip.setPointerCapture(event.pointerId);
      this.#isGripped = true;
      grip.onpointermove = (move) => this.actions.onResize(idOf(column), widthAt(move));
      grip.onlostpointercapture = () => {
        this.#isGripped = false;
        grip.onpointermove = null;
      };
    });
    head.addEventListener("dragstart", (event) => {
      if (this.#isGripped) event.preventDefault();
      else this.#dragged = cellOf(event).dataset.key;
    });
    head.addEventListener("dragover", (event) => {
      if (this.#dragged && !columnOf(event)?.isFixed) event.preventDefault();
    });
    head.addEventListener("drop", (event) => {
      event.preventDefault();
      this.actions.onMove(this.#dragged, cellOf(event).dataset.key);
    });
    head.addEventListener("dragend", () => (this.#dragged = ""));
  }
}

function createSortHead(/** @type {Column<any>} */ column) {
  if (column === REST) return h("td");
  const title = column.order
    ? h("button", { type: "button", class: "sort" })
    : h("span", { class: column.isHiddenTitle && "visually-hidden" });
  const grip = !column.isFixed && h("span", { class: "grip", "aria-hidden": "true" });
  const props = { scope: "col", class: column.isFigure && "figure", draggable: column.isFixed ? null : "true" };
  return h("th", props, title, grip);
}
