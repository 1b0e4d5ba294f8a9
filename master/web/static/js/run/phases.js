// Where the time of each rank goes: one bar per rank, a piece for each phase.

import { h, keep, setText } from "../dom.js";
import { duration, percent } from "../format.js";
import { sum } from "./curves.js";
import { SHOWN, meanPhases } from "./rankfigures.js";

/** @typedef {import("./rankfigures.js").RankFigures} RankFigures */

/** The section "Where the time goes". */
export class Phases {
  /** @param {Record<string, any>} parts legend, rows, empty, unit */
  constructor(parts) {
    this.parts = parts;
    this.figures = [];
    parts.unit.addEventListener("change", () => this.show(this.figures));
  }

  /** Show the phases of these ranks. */
  show(/** @type {RankFigures[]} */ figures) {
    this.figures = figures;
    const { parts } = this;
    const average = meanPhases(figures);
    const names = Object.keys(average);
    for (const part of [parts.legend, parts.rows, parts.unit]) part.hidden = names.length === 0;
    parts.empty.hidden = names.length > 0;
    if (!names.length) return;
    this.#showLegend(average);
    const rows = [
      { name: "Mean", phases: average },
      ...figures.map(({ rank, phases }) => ({ name: `Rank ${rank}`, phases })),
    ].filter(({ phases }, i) => Object.keys(phases).length && (i || figures.length > 1));
    const isShare = parts.unit.querySelector(":checked").value === "share";
    const longest = Math.max(...rows.map((row) => total(row.phases)));
    keep(
      parts.rows,
      rows,
      (row) => row.name,
      createRow,
      (element, row) => {
        updateRow(element, row, isShare ? total(row.phases) : longest);
      },
    );
  }

  #showLegend(average) {
    const all = total(average);
    keep(
      this.parts.legend,
      Object.entries(average),
      ([name]) => name,
      ([name]) =>
        h("li", { "data-phase": name }, h("b", {}, name), " ", h("span", { class: "soft" })),
      (item, [, seconds]) => {
        setText(item.lastElementChild, `${percent(seconds / all, 1)} · ${duration(seconds)}`);
      },
    );
  }
}

function createRow(/** @type {{ name: string, phases: Record<string, number> }} */ { name }) {
  return h(
    "div",
    { class: "phases-row" },
    h("span", { class: "phases-name" }, name),
    h("div", { class: "phases-bar", role: "img" }),
    h("span", { class: "phases-total soft" }),
  );
}

function updateRow(element, { name, phases }, whole) {
  const [, bar, end] = element.children;
  const pieces = SHOWN.filter((phase) => phases[phase] > 0);
  keep(
    bar,
    pieces,
    (phase) => phase,
    (phase) => h("span", { "data-phase": phase }),
    (piece, phase) => {
      piece.style.width = `${(100 * phases[phase]) / whole}%`;
      const share = percent(phases[phase] / total(phases), 1);
      piece.title = `${phase}: ${duration(phases[phase])}, ${share}`;
    },
  );
  const words = pieces.map((phase) => `${phase} ${percent(phases[phase] / total(phases))}`);
  bar.setAttribute("aria-label", `${name}: ${words.join(", ")}`);
  setText(end, duration(total(phases)));
}

function total(phases) {
  return sum(Object.values(phases));
}
