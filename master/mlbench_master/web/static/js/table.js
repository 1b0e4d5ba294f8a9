// Tables: rows keep their elements. A grid is a table that scrolls, in which only rows in sight have elements.

import { draw, h, reconcile } from "./dom.js";
import { alignedDurations } from "./format.js";

/**
 * A column: `text` returns a cell's text, or else `cell` its content, and `props` attributes of the cell. Without
 * an `id` its title identifies it. A grid sorts by the field `order` when its head is clicked. The `width` is in
 * pixels. Pinned columns stay in sight; fixed ones are neither moved nor resized. The grid itself sets `sorted`,
 * and for a pinned column `left`, its distance from the left edge.
 * @template Row
 * @typedef {{ title: string, id?: string, hint?: string, isFigure?: boolean, isHead?: boolean,
 *   order?: string, width?: number, isResized?: boolean, isPinned?: boolean, isFixed?: boolean,
 *   isHiddenTitle?: boolean, left?: number, sorted?: string, text?: (row: Row) => string,
 *   cell?: (row: Row) => unknown, props?: (row: Row) => object }} Column
 */

// Rows beyond those in sight, so that scrolling shows no gap.
const AROUND = 8;
const [MIN_WIDTH, HALF_GRIP] = [40, 4];
// The column of names takes the remaining width of a grid, up to this.
const MAX_ELASTIC = 176;

const idOf = (/** @type {Column<any>} */ { id, title }) => id ?? title;

/** @returns {Column<any>} a column of figures, which are aligned. */
export function figure(/** @type {string} */ title, /** @type {(row: any) => string} */ text, hint = undefined) {
  return { title, text, hint, isFigure: true };
}

/** @returns {Column<any>} a column of durations in seconds, all in one unit and with the same decimals. */
export function durations(/** @type {string} */ title, /** @type {any[]} */ rows, /** @type {(row: any) => number | null | undefined} */ valueOf, hint = undefined) {
  const write = alignedDurations(rows.map(valueOf));
  return figure(title, (row) => write(valueOf(row)), hint);
}

/**
 * Fill a table that has a thead with one row, and a tbody; `propsOf` returns attributes of a row.
 * @type {<Row>(table: HTMLTableElement, columns: Column<Row>[], rows: Row[], keyOf: (row: Row) => unknown,
 *   propsOf?: (row: Row) => object | false, drawRows?: typeof draw) => void}
 */
export const fillTable = (table, columns, rows, keyOf, propsOf = () => ({}), drawRows = draw) => {
  draw(table.tHead.rows[0], columns, idOf, makeHead);
  drawRows(table.tBodies[0], rows, keyOf, (row) => h("tr", propsOf(row) || {}, columns.map((column) => makeCell(column, row))));
};

/** @returns {HTMLTableElement} a new table of these rows. */
export function makeTable(/** @type {Column<any>[]} */ columns, /** @type {any[]} */ rows, /** @type {(row: any) => unknown} */ keyOf) {
  const table = /** @type {HTMLTableElement} */ (h("table", {}, h("thead", {}, h("tr")), h("tbody")));
  fillTable(table, columns, rows, keyOf);
  return table;
}

function makeHead(/** @type {Column<any>} */ column) {
  const { title, hint, order, width, sorted, isFixed, isHead, isHiddenTitle } = column;
  const sort = order && h("button", { type: "button", class: "sort", "data-order": order }, title);
  const isResizable = width !== undefined && !isFixed;
  const grip = h("span", { class: "grip", "aria-hidden": "true" });
  const props = { scope: "col", title: hint, "aria-sort": sorted, draggable: isResizable && !isHead ? "true" : null };
  const text = sort || h("span", { class: isHiddenTitle && "visually-hidden" }, title);
  return h("th", { ...props, ...lookOf(column) }, text, isResizable && grip);
}

function makeCell(/** @type {Column<any>} */ column, row) {
  const { title, isHead, text, cell, props } = column;
  const own = props?.(row) ?? {};
  const names = { "data-key": idOf(column), "data-title": title, scope: isHead && "row" };
  return h(isHead ? "th" : "td", { ...own, ...names, ...lookOf(column, own) }, cell ? cell(row) : text(row));
}

function lookOf(/** @type {Column<any>} */ { isFigure, left }, own = { class: "", style: {} }) {
  const classes = [isFigure && "figure", left !== undefined && "pinned", own.class].filter(Boolean);
  return { class: classes.join(" ") || null, style: { ...own.style, ...(left !== undefined && { left: `${left}px` }) } };
}

/**
 * A table inside an element that scrolls, whose rows have one height.
 * @template Row
 */
export class Grid {
  /** Pixels of a row. */
  rowHeight = 34;
  /** @type {Column<Row>[]} */
  #columns = [];
  /** @type {Row[]} */
  #rows = [];

  /**
   * Calls `onSort(field)`, `onMove(id, before)`, `onResize(id, width)` without a width for the usual one,
   * `onScroll(top, bottom)`; `propsOf(row)` returns attributes of a row.
   */
  constructor(/** @type {HTMLTableElement} */ table, /** @type {(row: Row) => unknown} */ keyOf, actions) {
    this.table = table;
    this.keyOf = keyOf;
    this.actions = actions;
    this.scroller = table.parentElement;
    this.sizes = table.insertBefore(h("colgroup"), table.tHead);
    this.scroller.addEventListener("scroll", () => {
      // Read first: afterwards the browser would have to lay out the new rows for it.
      const { scrollTop, clientHeight } = this.scroller;
      this.#drawRows();
      actions.onScroll(scrollTop, scrollTop + clientHeight);
    }, { passive: true });
    new ResizeObserver(() => this.#drawRows()).observe(this.scroller);
    const head = table.tHead.rows[0];
    const keyAt = ({ target }) => target.closest("th").dataset.key;
    const isGrip = ({ target }) => target.classList.contains("grip");
    head.addEventListener("click", (event) => {
      const button = /** @type {HTMLElement} */ (event.target).closest("button");
      if (button) actions.onSort(button.dataset.order);
    });
    head.addEventListener("dblclick", (event) => isGrip(event) && actions.onResize(keyAt(event), null));
    head.addEventListener("pointerdown", (/** @type {any} */ event) => isGrip(event) && event.target.setPointerCapture(event.pointerId));
    head.addEventListener("pointermove", (/** @type {any} */ event) => {
      if (!event.target.hasPointerCapture(event.pointerId)) return;
      const width = event.clientX + HALF_GRIP - event.target.parentElement.getBoundingClientRect().left;
      actions.onResize(keyAt(event), Math.max(MIN_WIDTH, width));
    });
    // A grip resizes its column, which is not dragged then.
    head.addEventListener("mousedown", (event) => isGrip(event) && event.preventDefault());
    moveByDrag(head, actions.onMove);
  }

  /** Show rows under columns, sorted by a field, or with `-` before it downwards. */
  draw(/** @type {Column<Row>[]} */ columns, /** @type {Row[]} */ rows, sortedBy = "") {
    let total = 0;
    this.#rows = rows;
    this.#columns = columns.map((column) => {
      const sorted = { [`${column.order}`]: "ascending", [`-${column.order}`]: "descending" }[sortedBy];
      const left = column.isPinned ? total : undefined;
      total += column.width;
      return { ...column, left, sorted: column.order && sorted };
    });
    // Pinned columns behind the names need the width of the names.
    const isElastic = columns.findLast(({ isPinned }) => isPinned)?.isHead;
    draw(this.sizes, columns, idOf, ({ width, isHead, isResized }) =>
      h("col", { style: { width: isElastic && isHead && !isResized ? "" : `${width}px` } }),
    );
    this.table.style.width = `clamp(${total}px, 100%, ${total + (isElastic ? MAX_ELASTIC : 0)}px)`;
    this.#drawRows(draw);
  }

  /** Scroll until a row is in sight. @returns {HTMLElement | null} the row */
  show(/** @type {unknown} */ key) {
    const at = this.#rows.findIndex((row) => this.keyOf(row) === key);
    if (at < 0) return null;
    const lowest = (at + 1) * this.rowHeight + this.table.tHead.offsetHeight - this.scroller.clientHeight;
    this.scroller.scrollTop = Math.min(at * this.rowHeight, Math.max(lowest, this.scroller.scrollTop));
    this.#drawRows();
    return this.table.tBodies[0].querySelector(`[data-key="${key}"]`);
  }

  // Rows that are in sight already only change with their data, not while the table scrolls.
  #drawRows(drawRows = reconcile) {
    const { scrollTop, clientHeight } = this.scroller;
    const { rowHeight, table } = this;
    const from = Math.max(0, Math.floor(scrollTop / rowHeight) - AROUND);
    const to = Math.min(this.#rows.length, Math.ceil((scrollTop + clientHeight) / rowHeight) + AROUND);
    table.tBodies[0].style.setProperty("--above", `${from * rowHeight}px`);
    table.tBodies[0].style.setProperty("--below", `${(this.#rows.length - to) * rowHeight}px`);
    table.setAttribute("aria-rowcount", String(this.#rows.length + 1));
    const rows = this.#rows.slice(from, to);
    const propsOf = (/** @type {Row} */ row) => ({ "aria-rowindex": from + rows.indexOf(row) + 2, ...this.actions.propsOf(row) });
    fillTable(table, this.#columns, rows, this.keyOf, propsOf, drawRows);
  }
}

/** Let children that have a key and are draggable be dropped on one another. */
export function moveByDrag(/** @type {HTMLElement} */ parent, /** @type {(key: string, before: string) => void} */ onMove) {
  let dragged = "";
  const keyAt = ({ target }) => target.closest("[draggable=true]")?.dataset.key ?? "";
  parent.addEventListener("dragstart", (event) => (dragged = keyAt(event)));
  parent.addEventListener("dragover", (event) => {
    if (dragged && keyAt(event)) event.preventDefault();
  });
  parent.addEventListener("drop", (event) => {
    event.preventDefault();
    onMove(dragged, keyAt(event));
  });
  parent.addEventListener("dragend", () => (dragged = ""));
}
