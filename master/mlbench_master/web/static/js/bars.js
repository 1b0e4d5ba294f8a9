// Drawings in rows: stacked bars with a name and a text, and sparklines, small curves with their target as a dashed line.

import { draw, h, svg } from "./dom.js";
import { sum } from "./series.js";

/**
 * A part of a bar. Its colour is a custom property of the style sheet; without one it is hatched.
 * @typedef {{ name: string, value: number, colour?: string, hint?: string }} Piece
 *
 * A row, of the runs `keys`. From `low` to `high` there is a whisker. With `href` it is a link.
 * @typedef {{
 *   name: string, text: string, pieces: Piece[], low?: number | null, high?: number | null,
 *   href?: string, isBest?: boolean, keys?: readonly number[]
 * }} Bar
 *
 * A curve, on axes from `from` (0 unless given) to `to` and from 0 to `high`.
 * @typedef {{ x: number[], y: number[], from?: number, to: number, high: number, target?: number, label: string }} Sparkline
 */

const [WIDTH, HEIGHT, EDGE] = [100, 24, 2];
// The length of the line that stands for a single value.
const ALONE = 4;

/** Show a row for each bar; the longest fills the width. */
export function showBars(/** @type {HTMLElement} */ place, /** @type {Bar[]} */ bars) {
  const lengths = bars.map(({ pieces, high }) => Math.max(sum(pieces.map(({ value }) => value)), high ?? 0));
  const longest = Math.max(...lengths);
  place.classList.add("bars");
  draw(place, bars, ({ name, keys }) => `${name} ${keys}`, (bar) => makeRow(bar, longest));
}

/** Name the colours of pieces in a list, each with a text. */
export function showKey(/** @type {HTMLElement} */ list, /** @type {{ name: string, colour?: string, text?: string }[]} */ entries) {
  draw(list, entries, ({ name }) => name, ({ name, colour, text }) =>
    h("li", { style: styleOf(colour) }, h("b", {}, name), " ", h("span", { class: "soft" }, text)),
  );
}

function makeRow(/** @type {Bar} */ { name, text, pieces, low, high, href, isBest, keys }, /** @type {number} */ longest) {
  const part = (/** @type {number} */ value) => `${(100 * Math.max(0, value)) / longest}%`;
  const parts = pieces.map((piece) => {
    const style = { width: part(piece.value), ...styleOf(piece.colour) };
    return h("span", { title: piece.hint ?? `${piece.name}: ${text}`, style });
  });
  const hasWhisker = low != null && high != null;
  const whisker = hasWhisker && h("span", { class: "bar-whisker", style: { left: part(low), width: part(high - low) } });
  const label = `${name}: ${pieces.map((piece) => piece.hint ?? piece.name).join(", ")} ${text}`;
  const bar = h("div", { class: "bar", role: "img", "aria-label": label }, h("div", { class: "bar-pieces" }, parts), whisker);
  const props = { class: "bar-row", href, "data-best": isBest, "data-runs": keys?.join(" ") };
  const title = h("span", { class: "bar-name", title: name }, name);
  return h(href ? "a" : "div", props, title, bar, h("span", { class: "bar-text soft" }, text));
}

const styleOf = (/** @type {string | undefined} */ colour) => (colour ? { "--piece": `var(${colour})` } : {});

const heightOf = (value, high) => HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * Math.min(1, Math.max(0, value / (high || 1)));

/** @returns {string} the corners of a curve's line; what exceeds the width is cut off by its box. */
export function cornersOf(/** @type {Sparkline} */ { x, y, from = 0, to, high }) {
  const corners = y.flatMap((value, i) => (Number.isFinite(value) ? [[(WIDTH * (x[i] - from)) / (to - from || 1), heightOf(value, high)]] : []));
  if (corners.length === 1) corners.unshift([corners[0][0] - ALONE, corners[0][1]]); // it would not be seen
  return corners.map((corner) => corner.map((part) => part.toFixed(1)).join(",")).join(" ");
}

/** @returns {SVGElement | null} a curve; null if it has no points. */
export function sparkline(/** @type {Sparkline} */ curve) {
  const points = cornersOf(curve);
  if (!points) return null;
  const y = curve.target === undefined ? -HEIGHT : heightOf(curve.target, curve.high);
  const box = { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" };
  const target = svg("line", { x1: 0, x2: WIDTH, y1: y, y2: y });
  const parts = [svg("title", {}, curve.label), target, svg("polyline", { points })];
  return svg("svg", { ...box, role: "img", "aria-label": curve.label }, parts);
}
