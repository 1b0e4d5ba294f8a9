// The table of workers: nodes with the sum of their workers, and a row for each worker.

import { h, reconcile, setText, svg } from "../dom.js";
import * as format from "../format.js";
import { activityOf, countsOf, showSquares, stateOf } from "./nodes.js";
import { WINDOW_MS, current } from "./usage.js";

/**
 * @import { Pod } from "../records.js"
 * @import { Node } from "./nodes.js"
 * @import { Usage } from "./usage.js"
 * @typedef {"cpu" | "memory" | "received" | "sent"} Kind
 */

/** @type {{ kind: Kind, text: (value: number) => string }[]} */
const FIGURES = [
  { kind: "cpu", text: (value) => value.toFixed(2) },
  { kind: "memory", text: format.bytes },
  { kind: "received", text: (value) => `${format.bytes(value)}/s` },
  { kind: "sent", text: (value) => `${format.bytes(value)}/s` },
];
const [WIDTH, HEIGHT] = [120, 28];
const VIEW_BOX = `0 0 ${WIDTH} ${HEIGHT}`;

/** @returns {HTMLElement} the part of the table that has a node and its workers. */
export function createNode(/** @type {Node} */ { node }, /** @type {(node: string) => void} */ onToggle) {
  const button = h("button", { type: "button", class: "quiet node-name", onclick: () => onToggle(node) }, h("bdi", {}, node));
  const squares = h("ul", { class: "squares", role: "list", "aria-label": `Workers on ${node}` });
  // The squares extend over the empty cells beside theirs, however many of these are shown.
  const about = h("td", { class: "worker-activity" }, h("div", { class: "node-about" }, squares, h("span", { class: "soft" })));
  const empty = [h("td", { class: "worker-curve" }), h("td", { class: "worker-cores" })];
  const row = h("tr", { class: "node-row", "data-key": "node" }, h("th", { scope: "rowgroup" }, button), about, empty, FIGURES.map(({ kind }) => figureCell(kind)));
  return h("tbody", {}, row);
}

/** Show a node and, if it is open, its workers. */
export function updateNode(/** @type {HTMLElement} */ body, /** @type {Node} */ { pods }, /** @type {boolean} */ isOpen, /** @type {number} */ now) {
  const row = body.firstElementChild;
  row.querySelector("button").setAttribute("aria-expanded", String(isOpen));
  showSquares(row.querySelector(".squares"), pods, now);
  setText(row.querySelector(".node-about > span"), `${format.plural(pods.length, "worker")}: ${countsOf(pods, now)}`);
  // The row of the node is an item too, so that it stays.
  const items = [{ name: "" }, ...(isOpen ? pods : [])];
  reconcile(body, items, (pod) => (pod.name ? `worker ${pod.name}` : "node"), createRow, (line, pod) => {
    if (pod.name) updateRow(line, /** @type {Pod} */ (pod), now);
  });
}

function createRow(/** @type {{ name: string }} */ { name }) {
  const link = h("a", { href: `/workers/${encodeURIComponent(name)}` }, h("bdi", {}, name));
  const activity = h("td", { class: "worker-activity" }, h("span"), " ", h("a"));
  const [head, run, cores] = [h("th", { scope: "row" }, h("i", { class: "dot" }), link), activity, h("td", { class: "figure worker-cores" })];
  return h("tr", {}, head, run, h("td", { class: "worker-curve" }, curve()), cores, FIGURES.map(({ kind }) => figureCell(kind)));
}

function curve() {
  const size = { class: "sparkline", viewBox: VIEW_BOX, preserveAspectRatio: "none", role: "img" };
  return svg("svg", size, svg("path", { class: "sparkline-area" }), svg("path", { class: "sparkline-line" }));
}

function figureCell(/** @type {string} */ kind) {
  return h("td", { class: `figure worker-${kind}`, "data-figure": kind });
}

function updateRow(/** @type {HTMLElement} */ row, /** @type {Pod} */ pod, /** @type {number} */ now) {
  const [words, link] = /** @type {HTMLElement[]} */ ([...row.querySelector(".worker-activity").children]);
  const state = stateOf(pod, now);
  row.querySelector("i").dataset.worker = state;
  const phase = pod.phase === "Running" ? "" : pod.phase.toLowerCase();
  setText(words, [phase, activityOf({ ...pod, run_id: null }, now, pod.run_id !== null)].filter(Boolean).join(", "));
  words.classList.toggle("bad-text", state === "silent");
  link.hidden = pod.run_id === null;
  setText(link, `run ${pod.run_id}, rank ${pod.rank}`);
  link.setAttribute("href", `/runs/${pod.run_id}`);
  setText(row.querySelector(".worker-cores"), format.spans(pod.cpus));
}

/**
 * Write the resource use of a node and of its rows.
 * @param {HTMLElement} body
 * @param {Node} node
 * @param {Usage} usage
 * @param {number} top cores at the upper edge of the curves
 */
export function drawNode(body, { pods }, usage, top) {
  const to = usage.newest();
  const valuesOf = (/** @type {Kind} */ kind) => pods.map((pod) => current(usage.of(pod.name)[kind], to));
  const columns = new Map(FIGURES.map(({ kind }) => [kind, valuesOf(kind)]));
  const write = (/** @type {Element} */ row, /** @type {(kind: Kind) => number | null} */ valueOf) => {
    for (const { kind, text } of FIGURES) {
      const value = valueOf(kind);
      setText(row.querySelector(`[data-figure="${kind}"]`), value === null ? "" : text(value));
    }
  };
  write(body.firstElementChild, (kind) => {
    const known = columns.get(kind).filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
  });
  [...body.children].slice(1).forEach((row, i) => {
    write(row, (kind) => columns.get(kind)[i]);
    const path = toPath(usage.of(pods[i].name).cpu, { from: to - WINDOW_MS, to, top });
    row.querySelector(".sparkline-area").setAttribute("d", path.area);
    row.querySelector(".sparkline-line").setAttribute("d", path.line);
    const used = columns.get("cpu")[i];
    row.querySelector("svg").setAttribute("aria-label", used === null ? "CPU not known" : `CPU ${used.toFixed(2)} cores`);
  });
}

/**
 * @param {Pod} pod
 * @param {string} filter part of a name, node, phase, state, or of `run 3`
 * @param {number} now
 * @returns {boolean} whether the filter matches this pod
 */
export function matches(pod, filter, now) {
  const run = pod.run_id === null ? "" : `run ${pod.run_id}`;
  const words = filter.trim().toLowerCase();
  return [pod.name, pod.node ?? "", pod.phase, countsOf([pod], now), stateOf(pod, now), run].some((text) =>
    text.toLowerCase().includes(words),
  );
}

/**
 * @param {{ times: number[], values: number[] }} series
 * @param {{ from: number, to: number, top: number }} frame the first and the last millisecond, and
 *   the value at the upper edge
 * @returns {{ line: string, area: string }} the SVG paths of a sparkline
 */
export function toPath(series, { from, to, top }) {
  const points = series.times
    .map((time, i) => [time, series.values[i]])
    .filter(([time, value]) => time >= from && time <= to && Number.isFinite(value))
    .map(([time, value]) => [
      ((time - from) / (to - from)) * WIDTH,
      HEIGHT - 1 - (Math.min(Math.max(value, 0), top) / (top || 1)) * (HEIGHT - 3),
    ].map((number) => number.toFixed(1)));
  if (points.length < 2) return { line: "", area: "" };
  const line = `M${points.map((point) => point.join(" ")).join("L")}`;
  return { line, area: `${line}L${points.at(-1)[0]} ${HEIGHT}L${points[0][0]} ${HEIGHT}Z` };
}
