// Stacked bars: a row each, with its name, the pieces of its bar, and a text behind it.

import { h, reconcile, setText } from "./dom.js";
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
 */

/** Show a row for each bar; the longest fills the width. */
export function showBars(/** @type {HTMLElement} */ place, /** @type {Bar[]} */ bars) {
  const lengths = bars.map(({ pieces, high }) => Math.max(sum(pieces.map(({ value }) => value)), high ?? 0));
  const longest = Math.max(...lengths);
  place.classList.add("bars");
  reconcile(place, bars, ({ name, keys }) => `${name} ${keys}`, create, (row, bar) => update(row, bar, longest));
}

/** Name the colours of pieces in a list, each with a text. */
export function showKey(/** @type {HTMLElement} */ list, /** @type {{ name: string, colour?: string, text?: string }[]} */ entries) {
  const make = ({ name, colour }) => coloured(h("li", {}, h("b", {}, name), " ", h("span", { class: "soft" })), colour);
  reconcile(list, entries, ({ name }) => name, make, (item, { text = "" }) => setText(item.lastElementChild, text));
}

function create(/** @type {Bar} */ { name, href, isBest, keys }) {
  const bar = h("div", { class: "bar", role: "img" }, h("div", { class: "bar-pieces" }), h("span", { class: "bar-whisker" }));
  const parts = [h("span", { class: "bar-name", title: name }, name), bar, h("span", { class: "bar-text soft" })];
  return h(href ? "a" : "div", { class: "bar-row", href, "data-best": isBest, "data-runs": keys?.join(" ") }, parts);
}

function update(row, /** @type {Bar} */ bar, longest) {
  const [, place, end] = row.children;
  const [pieces, whisker] = place.children;
  const part = (/** @type {number} */ value) => `${(100 * Math.max(0, value)) / longest}%`;
  const make = (/** @type {Piece} */ { colour }) => coloured(h("span"), colour);
  reconcile(pieces, bar.pieces, ({ name }) => name, make, (element, { name, value, hint }) => {
    element.style.width = part(value);
    element.title = hint ?? `${name}: ${bar.text}`;
  });
  const { low, high } = bar;
  whisker.hidden = low == null || high == null;
  if (!whisker.hidden) [whisker.style.left, whisker.style.width] = [part(low), part(high - low)];
  place.setAttribute("aria-label", `${bar.name}: ${bar.pieces.map(({ name, hint }) => hint ?? name).join(", ")} ${bar.text}`);
  setText(end, bar.text);
}

function coloured(element, colour) {
  if (colour) element.style.setProperty("--piece", `var(${colour})`);
  return element;
}
