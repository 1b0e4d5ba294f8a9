// A small curve in a row: a line, and the target as a dashed one.

import { svg } from "./dom.js";

/**
 * A curve, on axes from `from` (0 unless given) to `to` and from 0 to `high`.
 * @typedef {{ x: number[], y: number[], from?: number, to: number, high: number, target?: number, label: string }} Sparkline
 */

const [WIDTH, HEIGHT, EDGE] = [100, 24, 2];

const heightOf = (value, high) => HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * Math.min(1, Math.max(0, value / (high || 1)));

/** @returns {string} the corners of a curve's line; what exceeds the width is cut off by its box. */
export function cornersOf(/** @type {Sparkline} */ { x, y, from = 0, to, high }) {
  const corners = y.flatMap((value, i) => {
    if (!Number.isFinite(value)) return [];
    const across = (WIDTH * (x[i] - from)) / (to - from || 1);
    return `${across.toFixed(1)},${heightOf(value, high).toFixed(1)}`;
  });
  return (corners.length === 1 ? [...corners, ...corners] : corners).join(" "); // one alone is a dot
}

/** Show a curve in an element, or nothing. */
export function showSparkline(/** @type {HTMLElement} */ place, /** @type {Sparkline | null | undefined} */ curve) {
  const points = curve ? cornersOf(curve) : "";
  if ((place.dataset.drawn ?? "") === points) return;
  place.dataset.drawn = points;
  if (!points) return place.replaceChildren();
  const y = curve.target === undefined ? -HEIGHT : heightOf(curve.target, curve.high);
  const box = { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" };
  const target = svg("line", { x1: 0, x2: WIDTH, y1: y, y2: y });
  const parts = [svg("title", {}, curve.label), target, svg("polyline", { points })];
  place.replaceChildren(svg("svg", { ...box, role: "img", "aria-label": curve.label }, parts));
}
