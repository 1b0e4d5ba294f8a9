// The page of all workers, by node: activity and resource use of each.

import { get, now } from "../api.js";
import { byId, getParam, h, setNotice, setParams, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { showSparkline } from "../sparkline.js";
import { figure, fillTable, problemWith } from "../ui.js";
import { activityOf, countsOf, nodesOf, rankOf, showSquares, stateOf } from "./nodes.js";
import { Usage, fetchUsage } from "./usage.js";

/**
 * A row: a node with its workers, or one worker.
 * @typedef {{ key: string, name: string, pods: Pod[], isNode?: boolean }} Row
 */

const WINDOW_MS = 5 * 60_000;
// With more workers, nodes are closed at first.
const MANY = 24;
const [POLL_MS, USAGE_MS] = [2000, 5000];

const filter = byId("filter");
/** @type {Set<string>} nodes that a click has opened or closed */
const toggled = new Set();
/** @type {Pod[] | null} */
let pods = null;
let usage = new Usage();
let highestCpu = 0;

/** @type {import("../ui.js").Column<Row>[]} */
const COLUMNS = [
  {
    ...{ id: "name", title: "Worker", isHead: true },
    make: ({ name, isNode }) => {
      const text = h("bdi", {}, name);
      const toggle = () => {
        if (!toggled.delete(name)) toggled.add(name);
        show();
      };
      if (isNode) return h("button", { type: "button", class: "quiet node-name", onclick: toggle }, text);
      return [h("i", { class: "dot" }), h("a", { href: `/workers/${encodeURIComponent(name)}` }, text)];
    },
    fill: ({ firstElementChild: first }, { name, isNode, pods: [pod] }) => {
      if (isNode) first.setAttribute("aria-expanded", String(isOpen(name)));
      else /** @type {HTMLElement} */ (first).dataset.worker = stateOf(pod, now());
    },
  },
  {
    ...{ id: "activity", title: "Activity" },
    make: ({ name, isNode }) => {
      if (!isNode) return [h("span"), h("a")];
      // The squares extend over the empty cells beside theirs.
      const squares = h("ul", { class: "squares", role: "list", "aria-label": `Workers on ${name}` });
      return h("div", { class: "node-about" }, squares, h("span", { class: "soft" }));
    },
    fill: (cell, row) => (row.isNode ? showNode(cell.firstElementChild.children, row.pods) : showActivity(cell.children, row.pods[0])),
  },
  { id: "curve", title: "CPU, last 5 minutes", fill: (cell, row) => row.isNode || showCurve(cell, row) },
  {
    ...{ id: "cores", title: "Cores", isFigure: true, hint: "Numbers of the cores that a run has reserved" },
    text: ({ isNode, pods: [pod] }) => (isNode ? "" : format.spans(pod.cpus)),
  },
  used("cpu", "CPU cores used", (value) => value.toFixed(2)),
  used("memory", "Memory", format.bytes),
];
const perSecond = (/** @type {number} */ bytes) => `${format.bytes(bytes)}/s`;
const NETWORK = [used("received", "Network in", perSecond), used("sent", "Network out", perSecond)];

function used(/** @type {import("./usage.js").Kind} */ kind, /** @type {string} */ title, /** @type {(value: number) => string} */ write) {
  const textOf = (/** @type {Row} */ row) => {
    const value = usage.current(row.pods, kind);
    return value === null ? "" : write(value);
  };
  return { ...figure(title, textOf), id: kind };
}

function showNode(/** @type {Iterable<any>} */ [squares, detail], /** @type {Pod[]} */ workers) {
  showSquares(squares, workers, now());
  setText(detail, `${format.plural(workers.length, "worker")}: ${countsOf(workers, now())}`);
}

function showActivity(/** @type {Iterable<any>} */ [activity, link], /** @type {Pod} */ pod) {
  const phase = pod.phase === "Running" ? "" : `${pod.phase.toLowerCase()}, `;
  setText(activity, phase + activityOf(pod, now()));
  activity.classList.toggle("bad-text", stateOf(pod, now()) === "silent");
  setNotice(link, rankOf(pod));
  link.href = `/runs/${pod.run_id}`;
}

function showCurve(/** @type {HTMLElement} */ cell, /** @type {Row} */ { name, pods: workers }) {
  const [series, cores] = [usage.of(name, "cpu"), usage.current(workers, "cpu")];
  const label = cores === null ? "CPU not known" : `CPU ${cores.toFixed(2)} cores`;
  // One scale for all curves, so that they can be compared.
  const scale = { from: usage.newest - WINDOW_MS, to: usage.newest, high: Math.max(1, highestCpu) };
  showSparkline(cell, series && { x: series.times, y: series.values, ...scale, label });
}

// With few workers, or those that a filter has found, nodes are open.
function isOpen(/** @type {string} */ node) {
  return (pods.length <= MANY || filter.value.trim() !== "") !== toggled.has(node);
}

/** @returns {boolean} whether the filter has a part of a worker's name, node, phase or state, or of `run 3`. */
function matches(/** @type {Pod} */ pod) {
  const texts = [pod.name, pod.node ?? "", pod.phase, countsOf([pod], now()), activityOf(pod, now()), rankOf(pod)];
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
  const where = `${format.count(pods.length)} on ${format.plural(nodesOf(pods).length, "node")}`;
  setText(byId("summary"), pods.length ? `${where}: ${countsOf(pods, now())}` : "");
}

async function fetchPods() {
  pods = await get("/api/pods/");
  show();
  return POLL_MS;
}

async function refreshUsage() {
  usage = await fetchUsage(WINDOW_MS);
  highestCpu = usage.highest("cpu");
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
