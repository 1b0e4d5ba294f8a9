// The tab "Verdict": whether the runs can be compared, their results, and in what they differ.

import { Differences } from "../compare/differences.js";
import { Scaling } from "../compare/scaling.js";
import { Sweep } from "../compare/sweep.js";
import { columnsOf as resultColumns } from "../compare/times.js";
import { foldsOf, headlineOf } from "../compare/verdict.js";
import { h, reconcile } from "../dom.js";
import { fillTable } from "../ui.js";
import { makePart, makeTable, tableMenu } from "./tools.js";

/**
 * @import { Found } from "../compare/loader.js"
 * @import { ShownRun } from "./side.js"
 */

export class Verdict {
  #card = h("div", { class: "headline" });
  #folds = h("dl", { class: "folds" });
  #results = makeTable("Result of each run");
  #sweepPlace = h("div", { class: "halves" });
  #sweepPart = makePart("Sweep", [h("span", { class: "side-note" }, "means with 95 % intervals; darker is faster")], this.#sweepPlace);
  #sweep = new Sweep(this.#sweepPart, this.#sweepPlace);
  #scaling = new Scaling();
  #differences = new Differences();

  /** @param {HTMLElement} place */
  constructor(place) {
    const { table, scroll } = this.#results;
    place.append(
      h("section", { class: "card", "aria-label": "Verdict" }, this.#card, this.#folds),
      makePart("Results", [tableMenu(table, "Results")], scroll),
      this.#sweepPart,
      this.#differences.element,
      this.#scaling.element,
    );
  }

  show(/** @type {Found} */ found, /** @type {ShownRun[]} */ runs) {
    const { comparison, manifests } = found;
    const { state, badge, title, detail } = headlineOf(comparison);
    this.#card.replaceChildren(
      h("p", { class: "headline-title" }, badge && h("span", { class: "badge", "data-answer": state }, badge), h("b", {}, h("bdi", {}, title))),
      h("p", { class: "soft" }, detail),
    );
    const folds = foldsOf(comparison, manifests);
    reconcile(this.#folds, folds, (fold) => JSON.stringify(fold), makeFold);
    const styles = new Map(runs.map(({ run, colour, dash }) => [run.id, { colour, dash }]));
    fillTable(this.#results.table, resultColumns(comparison.results, (id) => styles.get(id)), comparison.results, (result) => result.run_id);
    this.#sweep.show(comparison);
    this.#scaling.show(comparison.groups);
    this.#differences.show(found);
  }
}

export function makeFold(/** @type {import("../compare/verdict.js").Fold} */ { term, text, details, isBad }) {
  const list = h("ul", {}, details.map((line) => h("li", {}, h("bdi", {}, line))));
  const content = details.length ? h("details", {}, h("summary", {}, text), list) : h("bdi", {}, text);
  return h("div", { "data-bad": Boolean(isBad) && true }, h("dt", {}, term), h("dd", {}, content));
}
