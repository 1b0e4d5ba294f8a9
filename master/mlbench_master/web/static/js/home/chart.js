// Curves of the home page: that of an active run with its forecast, and small ones.

import { Chart } from "../chart.js";
import { h, svg } from "../dom.js";
import * as format from "../format.js";
import { unitOf } from "../run/curves.js";
import { labelOf, pointsOf, rangeOf } from "../runs/curves.js";

/**
 * @typedef {import("../records.js").Schemas["RunCurve"]} RunCurve
 * @typedef {{ seconds: number[], values: number[] }} Curve
 * @import { Target } from "../records.js"
 */

/** @returns {SVGElement} the small curve of a run with its target, on an axis of `longest` seconds. */
export function smallCurve(/** @type {RunCurve} */ curve, /** @type {Target} */ target, /** @type {number} */ longest) {
  const label = labelOf(curve);
  const aim = { ...curve, training_seconds: [], seconds: [0, longest], values: [target.value, target.value] };
  return svg(
    "svg",
    { viewBox: "0 0 76 24", preserveAspectRatio: "none", class: "home-curve", role: "img", "aria-label": label },
    svg("title", {}, label),
    svg("polyline", { class: "target-line", points: pointsOf(aim, target, longest) }),
    svg("polyline", { points: pointsOf(curve, target, longest) }),
  );
}

/** The chart of an active run over the time since its start. */
export class ActiveChart {
  element = h("div");
  #chart = new Chart(this.element, "Progress", { hasFiles: false });

  /**
   * @param {{ target: Target | null, metric: string, value: Curve | null, way: Curve | null, loss: Curve | null }} shown
   *   the loss has a scale of its own
   */
  show({ target, metric, value, way, loss }) {
    const { seconds: unit, name } = unitOf(Math.max(...[value, way, loss].map((curve) => curve?.seconds.at(-1) ?? 0)));
    const toLine = (text, { seconds, values }, style) => ({ name: text, x: seconds.map((at) => at / unit), y: values, ...style });
    const [first, last] = loss ? [loss.values[0], loss.values.at(-1)].map((at) => format.number(at, 3)) : [];
    const aim = target && `target ${format.metric(metric, target.value)}`;
    const texts = [
      value && `${format.metricTitle(metric)} ${format.metric(metric, value.values.at(-1))}`,
      aim,
      loss && `training loss ${last}`,
    ];
    const lines = [
      value && toLine(format.metricTitle(metric), value, { colour: "--series-0" }),
      way && toLine("Forecast", way, { colour: "--series-0", dash: "dot" }),
      loss && toLine(`Training loss, ${first} to ${last}`, loss, { colour: "--series-1", own: true }),
    ];
    this.#chart.draw(lines.filter(Boolean), {
      x: `Time (${name})`,
      stacked: "last",
      ySuffix: format.isPercent(metric) ? " %" : "",
      marks: target ? [{ y: target.value, text: aim, colour: "--good" }] : [],
      yRange: target ? rangeOf(target) : undefined,
      label: texts.filter(Boolean).join(", "),
    });
  }
}
