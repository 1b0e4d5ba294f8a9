// The section "Differences": a table of facts by runs, which can be filtered.

import { h, keep, setText } from "../dom.js";
import { isPackage, MARKS, matches, NOT_STATED, toRows } from "./differences.js";
import { fillTable } from "./table.js";

/** The section of that name. */
export class Contrast {
  /**
   * @param {{ filter: HTMLInputElement, note: HTMLElement, facts: HTMLTableElement,
   *   folded: HTMLElement, summary: HTMLElement, packages: HTMLTableElement }} parts
   */
  constructor(parts) {
    this.parts = parts;
    parts.filter.addEventListener("input", () => this.#fill());
  }

  /** Show in what runs differ. */
  show(/** @type {{ comparison: object, manifests: object[] }} */ { comparison, manifests }) {
    this.rows = toRows(comparison, manifests);
    this.results = comparison.results;
    this.#fill();
  }

  #fill() {
    const { filter, note, facts: table, folded, summary, packages: packagesTable } = this.parts;
    const wanted = this.rows.filter((row) => matches(row, filter.value));
    const facts = wanted.filter((row) => !isPackage(row));
    const packages = wanted.filter(isPackage);
    this.#fillTable(table, facts, [MEANING, PART]);
    this.#fillTable(packagesTable, packages, []);
    table.parentElement.hidden = facts.length === 0;
    folded.hidden = packages.length === 0;
    setText(summary, `Packages (${packages.length})`);
    setText(note, this.#say(wanted));
  }

  #fillTable(table, rows, extra) {
    const runs = this.results.map((result, i) => ({
      title: `Run ${result.run_id}`,
      hint: result.name,
      fill: (cell, row) => fillValue(cell, row, i),
    }));
    const name = { title: "Fact", isHead: true, text: (row) => row.name };
    fillTable(table, [name, ...extra, ...runs], rows, (row) => row.key);
  }

  #say(wanted) {
    if (this.results.length < 2) return "There is nothing to differ from: add a second run above.";
    if (!this.rows.length) return "These runs differ in nothing that they state.";
    return wanted.length ? "" : "Nothing here matches the filter.";
  }
}

const PART = { title: "Part", text: (row) => row.group };
const MEANING = {
  title: "Meaning",
  fill: (cell, row) => {
    const make = (breaks) => h("span", { class: "meaning", "data-breaks": breaks }, MARKS[breaks]);
    keep(
      cell,
      [row.breaks],
      (breaks) => breaks,
      make,
      () => {},
    );
  },
};

function fillValue(cell, row, i) {
  setText(cell, row.values[i]);
  const isStated = row.values[i] !== NOT_STATED;
  cell.classList.toggle("soft", !isStated);
  cell.classList.toggle("other", isStated && row.values[i] !== row.values[0]);
}
