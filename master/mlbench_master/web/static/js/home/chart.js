// Curves of the home page, drawn as SVG: that of an active run with its forecast.

import { h, svg } from "../dom.js";
import * as format from "../format.js";
import { tick } from "../plot.js";
import { topOf } from "../runs/curves.js";

/**
 * @typedef {{ seconds: number[], values: number[] }} Curve
 * @import { Target } from "../records.js"
 */

const [LEFT, RIGHT, TOP, BOTTOM] = [44, 8, 12, 20];
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];
const MAX_TICKS = 8;

/** @returns {string} the corners of a line in a frame of pixels. */
export function cornersOf(/** @type {Curve} */ { seconds, values }, /** @type {ReturnType<typeof frameOf>} */ { x, y }) {
  const corners = values.map((value, i) => `${x(seconds[i]).toFixed(1)},${y(value).toFixed(1)}`);
  return (corners.length === 1 ? [...corners, ...corners] : corners).join(" "); // one alone is a dot
}

/**
 * @param {number} end the seconds at the right edge
 * @param {[number, number]} range the values at the bottom and the top
 * @param {{ left: number, right: number, top: number, bottom: number }} box in pixels
 */
export function frameOf(end, [low, high], { left, right, top, bottom }) {
  const share = (value) => Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
  return {
    x: (/** @type {number} */ at) => left + ((right - left) * Math.min(at, end)) / (end || 1),
    y: (/** @type {number} */ value) => bottom - (bottom - top) * share(value),
  };
}

/** @returns {{ at: number, text: string }[]} round times from 0 to `end` seconds. */
export function timeTicks(/** @type {number} */ end) {
  const step = STEPS.find((seconds) => end / seconds <= MAX_TICKS) ?? Math.ceil(end / MAX_TICKS / 86_400) * 86_400;
  const [size, unit] = step >= 3600 ? [3600, "h"] : step >= 60 ? [60, "min"] : [1, "s"];
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => ({ at: i * step, text: `${tick((i * step) / size)} ${unit}` }));
}

/**
 * What the chart of an active run shows. The loss has a scale of its own, from its smallest value to
 * its largest one.
 * @typedef {{ target: Target | null, metric: string, value: Curve | null, way: Curve | null, loss: Curve | null }} Shown
 */

/** The chart of an active run over the time since its start. */
export class ActiveChart {
  /** @type {Shown | null} */
  #shown = null;
  element = h("div", { class: "active-chart" });
  key = h("ul", { class: "active-key", role: "list", "aria-label": "Lines of the chart" });

  constructor() {
    new ResizeObserver(() => this.#draw()).observe(this.element);
  }

  show(/** @type {Shown} */ shown) {
    this.#shown = shown;
    this.#draw();
  }

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!this.#shown || !width) return;
    const { target, metric, value, way, loss } = this.#shown;
    const end = Math.max(1, ...[value, way, loss].map((curve) => curve?.seconds.at(-1) ?? 0));
    const box = { left: LEFT, right: width - RIGHT, top: TOP, bottom: height - BOTTOM };
    const values = value?.values ?? [];
    const [low, high] = target ? [0, topOf(target)] : [Math.min(...values, 0), Math.max(...values, 0)];
    const frame = frameOf(end, [low, high], box);
    const unit = format.isPercent(metric) ? " %" : "";
    const level = (/** @type {number} */ share) => low + share * (high - low);
    const levels = value || target ? [0, 0.5, 1].map(level) : [];
    const lossFrame = loss && frameOf(end, [Math.min(...loss.values), Math.max(...loss.values)], box);
    const line = (name, curve, of) => curve && svg("polyline", { "data-line": name, points: cornersOf(curve, of) });
    this.element.replaceChildren(
      svg(
        "svg",
        { role: "img", "aria-label": describe(this.#shown) },
        levels.flatMap((at) => [
          svg("line", { class: "rule", x1: box.left, x2: box.right, y1: frame.y(at), y2: frame.y(at) }),
          svg("text", { x: box.left - 8, y: frame.y(at) + 4, "text-anchor": "end" }, `${format.number(at, 3)}${unit}`),
        ]),
        timeTicks(end).map(({ at, text }, i) =>
          svg("text", { x: frame.x(at), y: height - 4, "text-anchor": i ? "middle" : "start" }, text),
        ),
        target && svg("line", { class: "target-line", x1: box.left, x2: box.right, y1: frame.y(target.value), y2: frame.y(target.value) }),
        target && svg("text", { class: "target-text", x: box.right, y: frame.y(target.value) + (target.lower_is_better ? 14 : -4), "text-anchor": "end" }, `target ${format.metric(metric, target.value)}`),
        line("loss", loss, lossFrame),
        line("value", value, frame),
        line("way", way, frame),
      ),
    );
    const entries = [
      value && ["value", format.metricTitle(metric)],
      way && ["way", "Forecast"],
      loss && ["loss", `Training loss, ${format.number(loss.values[0], 3)} to ${format.number(loss.values.at(-1), 3)}`],
    ].filter(Boolean);
    this.key.replaceChildren(...entries.map(([name, text]) => h("li", { "data-line": name }, h("i"), text)));
  }
}

function describe(/** @type {Shown} */ { metric, target, value, loss }) {
  const now = value?.values.length ? `${format.metricTitle(metric)} ${format.metric(metric, value.values.at(-1))}` : "";
  const aim = target && `target ${format.metric(metric, target.value)}`;
  const lost = loss && `training loss ${format.number(loss.values.at(-1), 3)}`;
  return [now, aim, lost].filter(Boolean).join(", ") || "No values yet";
}
