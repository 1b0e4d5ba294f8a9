// Fills a table from columns and rows, and keeps what did not change.

import { h, keep, setText } from "../dom.js";

/**
 * A column: `text` gives a cell's text, or `fill` puts elements into it.
 * @template Row
 * @typedef {{ title: string, hint?: string, isFigure?: boolean, isHead?: boolean,
 *   text?: (row: Row) => string, fill?: (cell: HTMLElement, row: Row) => void }} Column
 */

/**
 * Show rows in a table that has a thead with a row, and a tbody.
 * @template Row
 * @param {HTMLTableElement} table
 * @param {Column<Row>[]} columns
 * @param {Row[]} rows
 * @param {(row: Row) => unknown} keyOf
 */
export function fillTable(table, columns, rows, keyOf) {
  const titleOf = (column) => column.title;
  keep(table.tHead.rows[0], columns, titleOf, makeHead, (cell, column) =>
    setText(cell, column.title),
  );
  keep(
    table.tBodies[0],
    rows,
    keyOf,
    () => h("tr"),
    (line, row) => {
      keep(line, columns, titleOf, makeCell, (cell, column) => {
        if (column.fill) column.fill(cell, row);
        else setText(cell, column.text(row));
      });
    },
  );
}

function makeHead(column) {
  const props = { scope: "col", class: column.isFigure && "figure", title: column.hint };
  return h("th", props);
}

function makeCell(column) {
  if (column.isHead) return h("th", { scope: "row" });
  return h("td", { class: column.isFigure && "figure" });
}
