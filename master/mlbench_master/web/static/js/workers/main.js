// The page of all workers, by node: activity and resource use of each.

import { get, now } from "../api.js";
import { sparkline } from "../bars.js";
import { byId, getParam, h, setParams, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { figure, fillTable, problemWith } from "../ui.js";
import { activityOf, countsOf, nodesOf, rankOf, squaresOf, stateOf } from "./nodes.js";
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

/** @type {import("../table.js").Column<Row>[]} */
const COLUMNS = [
  { id: "name", title: "Worker", isHead: true, cell: (row) => (row.isNode ? nodeName(row.name) : workerName(row.pods[0])) },
  { id: "activity", title: "Activity", cell: (row) => (row.isNode ? nodeActivity(row) : workerActivity(row.pods[0])) },
  { id: "curve", title: "CPU, last 5 minutes", cell: (row) => !row.isNode && cpuCurve(row) },
  {
    ...{ id: "cores", title: "Cores", isFigure: true, hint: "Numbers of the cores that a run has reserved" },
    text: ({ isNode, pods: [pod] }) => (isNode ? "" : format.spans(pod.cpus) || format.NONE),
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

function nodeName(/** @type {string} */ node) {
  const onclick = () => {
    if (!toggled.delete(node)) toggled.add(node);
    show();
  };
  return h("button", { type: "button", class: "quiet node-name", "aria-expanded": String(isOpen(node)), onclick }, h("bdi", {}, node));
}

function workerName(/** @type {Pod} */ pod) {
  const link = h("a", { href: `/workers/${encodeURIComponent(pod.name)}` }, h("bdi", {}, pod.name));
  return [h("i", { class: "dot", "data-worker": stateOf(pod, now()) }), link];
}

function nodeActivity(/** @type {Row} */ { name, pods: workers }) {
  const counts = `${format.plural(workers.length, "worker")}: ${countsOf(workers, now())}`;
  // The squares extend over the empty cells beside theirs.
  return h("div", { class: "node-about" }, squaresOf(name, workers, now()), h("span", { class: "soft" }, counts));
}

function workerActivity(/** @type {Pod} */ pod) {
  const phase = pod.phase === "Running" ? "" : `${pod.phase.toLowerCase()}, `;
  const activity = h("span", { class: stateOf(pod, now()) === "silent" && "bad-text" }, phase + activityOf(pod, now()));
  return [activity, rankOf(pod) && h("a", { href: `/runs/${pod.run_id}` }, rankOf(pod))];
}

function cpuCurve(/** @type {Row} */ { name, pods: workers }) {
  const [series, cores] = [usage.of(name, "cpu"), usage.current(workers, "cpu")];
  const label = cores === null ? "CPU not known" : `CPU ${cores.toFixed(2)} cores`;
  // One scale for all curves, so that they can be compared.
  const scale = { from: usage.newest - WINDOW_MS, to: usage.newest, high: Math.max(1, highestCpu) };
  return series && sparkline({ x: series.times, y: series.values, ...scale, label });
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
  fillTable(byId("workers"), columns, rows, ({ key }) => key, ({ isNode }) => ({ class: isNode && "node-row" }));
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
  usage = await fetchUsage(WINDOW_MS, ["cpu", "memory", "received", "sent"]);
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
