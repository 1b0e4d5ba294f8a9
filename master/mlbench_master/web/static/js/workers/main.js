// The page of all workers, by node: activity and resource use of each.

import { get, now } from "../api.js";
import { byId, getParam, h, setNotice, setParams, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { showSparkline } from "../sparkline.js";
import { figure, fillTable, problemWith } from "../ui.js";
import { activityOf, countsOf, nodesOf, showSquares, stateOf } from "./nodes.js";
import { Usage, fetchUsage } from "./usage.js";

/**
 * @import { Pod } from "../records.js"
 *
 * A row: a node with its workers, or one worker.
 * @typedef {{ key: string, name: string, pods: Pod[], isNode?: boolean }} Row
 */

const WINDOW_MS = 5 * 60_000;
// With more workers, nodes are closed at first.
const MANY = 24;
const POLL_MS = 2000;
const USAGE_MS = 5000;

const filter = byId("filter");
/** @type {Set<string>} nodes that a click has opened or closed */
const toggled = new Set();
/** @type {Pod[] | null} */
let pods = null;
let usage = new Usage();

/** @type {import("../ui.js").Column<Row>[]} */
const COLUMNS = [
  { id: "name", title: "Worker", isHead: true, make: createName, fill: showName },
  { id: "activity", title: "Activity", make: createActivity, fill: showActivity },
  { id: "curve", title: "CPU, last 5 minutes", fill: (cell, row) => row.isNode || showCurve(cell, row) },
  {
    ...{ id: "cores", title: "Cores", isFigure: true, hint: "Numbers of the cores that a run has reserved" },
    text: ({ isNode, pods: [pod] }) => (isNode ? "" : format.spans(pod.cpus)),
  },
  used("cpu", "CPU cores used", (value) => value.toFixed(2)),
  used("memory", "Memory", format.bytes),
];
const NETWORK = [
  used("received", "Network in", (value) => `${format.bytes(value)}/s`),
  used("sent", "Network out", (value) => `${format.bytes(value)}/s`),
];

function used(/** @type {import("./usage.js").Kind} */ kind, /** @type {string} */ title, /** @type {(value: number) => string} */ write) {
  const textOf = (/** @type {Row} */ row) => {
    const value = usage.current(row.pods, kind);
    return value === null ? "" : write(value);
  };
  return { ...figure(title, textOf), id: kind };
}

function createName(/** @type {Row} */ { name, isNode }) {
  const text = h("bdi", {}, name);
  if (isNode) return h("button", { type: "button", class: "quiet node-name", onclick: () => toggle(name) }, text);
  return [h("i", { class: "dot" }), h("a", { href: `/workers/${encodeURIComponent(name)}` }, text)];
}

function showName(/** @type {HTMLElement} */ { firstElementChild: first }, /** @type {Row} */ { name, isNode, pods: [pod] }) {
  if (isNode) first.setAttribute("aria-expanded", String(isOpen(name)));
  else /** @type {HTMLElement} */ (first).dataset.worker = stateOf(pod, now());
}

function createActivity(/** @type {Row} */ { name, isNode }) {
  if (!isNode) return [h("span"), h("a")];
  // The squares extend over the empty cells beside theirs.
  const squares = h("ul", { class: "squares", role: "list", "aria-label": `Workers on ${name}` });
  return h("div", { class: "node-about" }, squares, h("span", { class: "soft" }));
}

function showActivity(/** @type {HTMLElement} */ cell, /** @type {Row} */ { isNode, pods: workers }) {
  const [words, link] = /** @type {HTMLAnchorElement[]} */ ([...(isNode ? cell.firstElementChild : cell).children]);
  if (isNode) {
    showSquares(words, workers, now());
    setText(link, `${format.plural(workers.length, "worker")}: ${countsOf(workers, now())}`);
    return;
  }
  const [pod] = workers;
  const phase = pod.phase === "Running" ? "" : pod.phase.toLowerCase();
  setText(words, [phase, activityOf({ ...pod, run_id: null }, now(), pod.run_id !== null)].filter(Boolean).join(", "));
  words.classList.toggle("bad-text", stateOf(pod, now()) === "silent");
  setNotice(link, pod.run_id === null ? "" : `run ${pod.run_id}, rank ${pod.rank}`);
  link.href = `/runs/${pod.run_id}`;
}

function showCurve(/** @type {HTMLElement} */ cell, /** @type {Row} */ { name, pods: workers }) {
  const [series, cores] = [usage.of(name, "cpu"), usage.current(workers, "cpu")];
  const label = cores === null ? "CPU not known" : `CPU ${cores.toFixed(2)} cores`;
  // One scale for all curves, so that they can be compared.
  const scale = { from: usage.newest - WINDOW_MS, to: usage.newest, high: Math.max(1, usage.highest("cpu")) };
  showSparkline(cell, series && { x: series.times, y: series.values, ...scale, label });
}

// With few workers, or those that a filter has found, nodes are open.
function isOpen(/** @type {string} */ node) {
  return (pods.length <= MANY || filter.value.trim() !== "") !== toggled.has(node);
}

/** @returns {boolean} whether the filter has a part of a worker's name, node, phase or state, or of `run 3`. */
function matches(/** @type {Pod} */ pod) {
  const texts = [pod.name, pod.node ?? "", pod.phase, countsOf([pod], now()), activityOf(pod, now())];
  return texts.some((text) => text.toLowerCase().includes(filter.value.trim().toLowerCase()));
}

function show() {
  if (!pods) return;
  const shown = pods.filter(matches);
  /** @type {Row[]} */
  const rows = nodesOf(shown).flatMap(({ node, pods: workers }) => [
    { key: `node ${node}`, name: node, pods: workers, isNode: true },
    ...(isOpen(node) ? workers.map((pod) => ({ key: `worker ${pod.name}`, name: pod.name, pods: [pod] })) : []),
  ]);
  // The network of the workers on one machine is not measured.
  const columns = usage.highest("received") + usage.highest("sent") ? [...COLUMNS, ...NETWORK] : COLUMNS;
  fillTable(byId("workers"), columns, rows, ({ key }) => key, (line, { isNode }) => line.classList.toggle("node-row", Boolean(isNode)));
  byId("loading").hidden = true;
  byId("workers").hidden = shown.length === 0;
  byId("none").hidden = pods.length > 0;
  byId("no-match").hidden = pods.length === 0 || shown.length > 0;
  setText(byId("summary"), pods.length ? `${format.count(pods.length)} on ${format.plural(nodesOf(pods).length, "node")}: ${countsOf(pods, now())}` : "");
}

function toggle(/** @type {string} */ node) {
  if (!toggled.delete(node)) toggled.add(node);
  show();
}

async function fetchPods() {
  pods = await get("/api/pods/");
  show();
  return POLL_MS;
}

async function refreshUsage() {
  usage = await fetchUsage(WINDOW_MS);
  show();
  return USAGE_MS;
}

filter.value = getParam("filter");
filter.addEventListener("input", () => {
  setParams({ filter: filter.value });
  toggled.clear();
  show();
});
const onProblem = problemWith(() => polls.forEach((poller) => poller.now()));
const polls = [poll(fetchPods, onProblem), poll(refreshUsage, onProblem)];
