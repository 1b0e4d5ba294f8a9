// Tells which line is whose: samples of lines beside names, and a legend that hides and shows.

import { h, keep, setText, svg } from "../dom.js";
import { labelOf, lookOf } from "./view.js";

const DASHES = { dash: "5 3", dot: "1.5 2.5" };

/** @returns {SVGElement} a piece of the line that the i-th run is drawn with. */
export function sample(/** @type {number} */ i) {
  const { colour, dash } = lookOf(i);
  return svg(
    "svg",
    { class: "sample", viewBox: "0 0 22 8", "aria-hidden": "true" },
    svg("line", {
      x1: 0,
      x2: 22,
      y1: 4,
      y2: 4,
      stroke: `var(${colour})`,
      "stroke-width": 3,
      "stroke-dasharray": DASHES[dash],
    }),
  );
}

/** A legend, whose entries hide and show the curves of runs. */
export class Legend {
  /**
   * @param {HTMLElement} place
   * @param {() => void} onChange called when a curve shall be hidden or shown
   */
  constructor(place, onChange) {
    this.place = place;
    this.onChange = onChange;
    this.hidden = new Set();
  }

  /** Have an entry for each result. */
  show(/** @type {{ run_id: number, name: string }[]} */ results) {
    const entries = results.length > 1 ? results.map((result, i) => ({ result, i })) : [];
    const keyOf = ({ result, i }) => `${result.run_id} ${i}`;
    keep(
      this.place,
      entries,
      keyOf,
      (entry) => this.#make(entry),
      (button, { result }) => {
        setText(button.lastElementChild, labelOf(result));
      },
    );
  }

  #make({ result, i }) {
    const button = h(
      "button",
      {
        type: "button",
        class: "quiet legend-entry",
        "aria-pressed": "true",
        title: labelOf(result),
      },
      sample(i),
      h("span"),
    );
    button.addEventListener("click", () => {
      if (!this.hidden.delete(result.run_id)) this.hidden.add(result.run_id);
      button.setAttribute("aria-pressed", String(!this.hidden.has(result.run_id)));
      this.onChange();
    });
    return button;
  }
}
