// One worker on the page: a card if there are few, a row of a list if there are many.

import { h, setNotice, setText, svg } from "../dom.js";
import * as format from "../format.js";
import { badge, setBadge } from "../ui.js";
import { WINDOW_MS, current } from "./usage.js";

/** @import { Pod } from "../records.js" */

// Of a label, the first part is left out where there is little room.
const CURVES = [
  { kind: "cpu", label: ["", "CPU"], unit: (value) => `${value.toFixed(2)} cores` },
  { kind: "memory", label: ["", "Memory"], unit: format.bytes },
  { kind: "received", label: ["Network ", "in"], unit: (value) => `${format.bytes(value)}/s` },
  { kind: "sent", label: ["Network ", "out"], unit: (value) => `${format.bytes(value)}/s` },
];
// With a smaller scale, noise would look like work.
const MIN_TOPS = { cpu: 1, memory: 100e6, received: 100e3, sent: 100e3 };
const SILENT_MS = 15_000;
const STATES = ["running", "idle", "exited", "starting", "silent"];
const [WIDTH, HEIGHT] = [120, 28];
const VIEW_BOX = `0 0 ${WIDTH} ${HEIGHT}`;

/** @returns {HTMLLIElement} an entry for a worker; `data-part` names what `updateWorker` fills. */
export function createWorker(/** @type {Pod} */ pod) {
  const link = h("a", { href: `/workers/${encodeURIComponent(pod.name)}` }, pod.name);
  const title = h("h2", { class: "worker-name" }, link);
  const activity = [h("span", { "data-part": "does" }), h("a", { "data-part": "run" })];
  const facts = [fact("Node", "node"), fact("IP", "ip"), fact("Cores", "cores"), fact("Last seen", "seen")];
  const article = h(
    "article",
    { class: "card worker", "aria-label": pod.name },
    h("header", {}, title, badge(pod.phase)),
    h("p", { class: "worker-does" }, activity),
    h("dl", { class: "worker-facts" }, facts),
    h("div", { class: "worker-curves" }, CURVES.map(createCurve)),
  );
  return h("li", {}, article);
}

/** Update all of a worker but its curves. */
export function updateWorker(entry, /** @type {Pod} */ pod, /** @type {number} */ now) {
  setBadge(entry.querySelector(".badge"), pod.phase);
  fillFacts((name) => part(entry, name), pod, now);
  part(entry, "seen").classList.toggle("bad-text", isSilent(pod, now));
}

/** Fill the activity and location of a worker into the elements that `find` returns by name. */
export function fillFacts(find, /** @type {Pod} */ pod, /** @type {number} */ now) {
  setText(find("does"), activityOf(pod, now));
  setText(find("node"), pod.node ?? format.NONE);
  setText(find("ip"), pod.ip || format.NONE);
  setText(find("cores"), format.spans(pod.cpus) || format.NONE);
  setText(find("seen"), lastSeen(pod, now));
  setNotice(find("run"), pod.run_id === null ? "" : `Run ${pod.run_id}, rank ${pod.rank}`);
  find("run").href = `/runs/${pod.run_id}`;
}

/**
 * Draw the curves of a worker.
 * @param {HTMLElement} entry
 * @param {import("./usage.js").Usage} usage
 * @param {Record<string, number>} tops the value at the upper edge, by kind of curve
 */
export function drawWorker(entry, usage, tops) {
  const to = usage.newest();
  const curves = usage.of(entry.dataset.key);
  for (const { kind, label, unit } of CURVES) {
    const curve = part(entry, kind);
    const value = current(curves[kind], to);
    const text = value === null ? format.NONE : unit(value);
    // Not every pod's network is measured.
    curve.hidden = (kind === "received" || kind === "sent") && curves[kind].times.length === 0;
    setText(curve.querySelector(".worker-figure"), text);
    const path = toPath(curves[kind], { from: to - WINDOW_MS, to, top: tops[kind] });
    curve.querySelector(".sparkline-area").setAttribute("d", path.area);
    curve.querySelector(".sparkline-line").setAttribute("d", path.line);
    curve.querySelector("svg").setAttribute("aria-label", `${label.join("")}: ${text}`);
  }
}

/** @returns {Record<string, number>} one scale for all workers, so that they can be compared. */
export function scaleOf(/** @type {Record<string, number>} */ highest) {
  return Object.fromEntries(
    Object.entries(MIN_TOPS).map(([kind, least]) => [kind, Math.max(least, highest[kind])]),
  );
}

/** @returns {string} the number of workers by state, such as `2 workers: 1 running, 1 idle`. */
export function summary(/** @type {Pod[]} */ pods, /** @type {number} */ now) {
  const states = pods.map((pod) => stateOf(pod, now));
  const parts = STATES.filter((state) => states.includes(state)).map(
    (state) => `${states.filter((other) => other === state).length} ${state}`,
  );
  return `${format.plural(pods.length, "worker")}: ${parts.join(", ")}`;
}

/**
 * @param {Pod} pod
 * @param {string} filter part of a name, node, phase, state, or of `run 3`
 * @param {number} now
 * @returns {boolean} whether the filter matches this pod
 */
export function matches(pod, filter, now) {
  const run = pod.run_id === null ? "" : `run ${pod.run_id}`;
  const wanted = filter.trim().toLowerCase();
  return [pod.name, pod.node ?? "", pod.phase, stateOf(pod, now), run].some((text) =>
    text.toLowerCase().includes(wanted),
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

/** @returns {string} the activity of a worker, as text before the link to its run. */
export function activityOf(/** @type {Pod} */ pod, /** @type {number} */ now) {
  const hasRank = pod.run_id !== null;
  return {
    running: hasRank ? "Working on" : "Stopping its process",
    idle: hasRank ? "About to start" : "Idle, ready for a run",
    exited: hasRank ? "Process exited:" : "Process exited",
    starting: hasRank ? "Starting, for" : "Starting, no heartbeat yet",
    silent: hasRank ? "Silent, with" : "Silent: down or unreachable",
  }[stateOf(pod, now)];
}

/** @returns {string} when a worker was heard of last. */
export function lastSeen(/** @type {Pod} */ pod, /** @type {number} */ now) {
  if (pod.seen_at === null) return "never";
  if (!isSilent(pod, now)) return format.ago(pod.seen_at, now);
  return `silent for ${format.duration((now - Date.parse(pod.seen_at)) / 1000)}`;
}

function stateOf(pod, now) {
  if (pod.seen_at === null) return "starting";
  return isSilent(pod, now) ? "silent" : pod.state;
}

function isSilent(pod, now) {
  return pod.seen_at !== null && now - Date.parse(pod.seen_at) > SILENT_MS;
}

function createCurve({ kind, label }) {
  const [long, short] = [h("span", { class: "worker-long" }, label[0]), label[1]];
  return h(
    "div",
    { class: "worker-curve", "data-part": kind },
    h("span", { class: "soft small-text" }, long, short),
    svg(
      "svg",
      { class: "sparkline", viewBox: VIEW_BOX, preserveAspectRatio: "none", role: "img" },
      svg("path", { class: "sparkline-area" }),
      svg("path", { class: "sparkline-line" }),
    ),
    h("span", { class: "worker-figure figure" }, format.NONE),
  );
}

function fact(label, name) {
  return h("div", {}, h("dt", {}, label), h("dd", { "data-part": name }));
}

function part(entry, name) {
  return entry.querySelector(`[data-part="${name}"]`);
}
