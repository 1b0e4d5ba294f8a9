// One worker on the page: a card where there are few, a row of a list where there are many.

import { h, setText } from "../dom.js";
import * as format from "../format.js";
import { badge, setBadge } from "../pieces.js";
import { drawSparkline, sparkline } from "../sparkline.js";
import { WINDOW_MS, current } from "./usage.js";
import { doing, isSilent, seen } from "./words.js";

// Of a label, the first part is left out where there is little room.
const CURVES = [
  { kind: "cpu", label: ["", "CPU"], unit: (value) => `${value.toFixed(2)} cores` },
  { kind: "memory", label: ["", "Memory"], unit: format.bytes },
  { kind: "received", label: ["Network ", "in"], unit: (value) => `${format.bytes(value)}/s` },
  { kind: "sent", label: ["Network ", "out"], unit: (value) => `${format.bytes(value)}/s` },
];
// Below these a curve is noise, which shall not look like work.
const LEAST_TOPS = { cpu: 1, memory: 100e6, received: 100e3, sent: 100e3 };

/** @returns {HTMLLIElement} an empty entry for a worker; `data-part` names what is filled later. */
export function createRow(/** @type {import("./words.js").Pod} */ pod) {
  const title = h("h2", { class: "worker-name" }, pod.name);
  const article = h(
    "article",
    { class: "card worker", "aria-label": pod.name },
    h("header", {}, title, badge(pod.phase)),
    h(
      "p",
      { class: "worker-does" },
      h("span", { "data-part": "does" }),
      h("a", { "data-part": "run" }),
    ),
    h(
      "dl",
      { class: "worker-facts" },
      fact("Node", "node"),
      fact("IP", "ip"),
      fact("Last seen", "seen"),
    ),
    h("div", { class: "worker-curves" }, CURVES.map(createCurve)),
  );
  return h("li", {}, article);
}

/** Show what is new of a worker, but for its curves. */
export function updateRow(row, pod, now) {
  setBadge(row.querySelector(".badge"), pod.phase);
  setText(part(row, "does"), doing(pod, now));
  setText(part(row, "node"), pod.node ?? "–");
  setText(part(row, "ip"), pod.ip || "–");
  setText(part(row, "seen"), seen(pod, now));
  part(row, "seen").classList.toggle("bad-text", isSilent(pod, now));
  const link = part(row, "run");
  link.hidden = pod.run_id === null;
  if (pod.run_id === null) return;
  setText(link, `Run ${pod.run_id}, rank ${pod.rank}`);
  link.href = `/runs/${pod.run_id}`;
}

/**
 * Draw the curves of a worker.
 * @param {HTMLElement} row
 * @param {import("./usage.js").Usage} usage
 * @param {Record<string, number>} tops what the upper edges stand for, by kind of curve
 */
export function drawRow(row, usage, tops) {
  const to = usage.newest();
  const curves = usage.of(row.dataset.key);
  for (const { kind, label, unit } of CURVES) {
    const curve = part(row, kind);
    const value = current(curves[kind], to);
    const text = value === null ? "–" : unit(value);
    // Of some pods the network is not measured.
    curve.hidden = (kind === "received" || kind === "sent") && curves[kind].times.length === 0;
    setText(curve.querySelector(".worker-figure"), text);
    drawSparkline(curve.querySelector("svg"), curves[kind], {
      from: to - WINDOW_MS,
      to,
      top: tops[kind],
      label: `${label.join("")}: ${text}`,
    });
  }
}

/** @returns {Record<string, number>} one scale for all workers, so that they can be compared. */
export function scaleOf(/** @type {Record<string, number>} */ highest) {
  return Object.fromEntries(
    Object.entries(LEAST_TOPS).map(([kind, least]) => [kind, Math.max(least, highest[kind])]),
  );
}

function createCurve({ kind, label }) {
  const [long, short] = [h("span", { class: "worker-long" }, label[0]), label[1]];
  return h(
    "div",
    { class: "worker-curve", "data-part": kind },
    h("span", { class: "soft small-text" }, long, short),
    sparkline(),
    h("span", { class: "worker-figure figure" }, "–"),
  );
}

function fact(label, name) {
  return h("div", {}, h("dt", {}, label), h("dd", { "data-part": name }));
}

function part(row, name) {
  return row.querySelector(`[data-part="${name}"]`);
}
