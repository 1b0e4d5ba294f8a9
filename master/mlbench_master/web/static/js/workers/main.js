// The page of all workers, by node: activity and resource use of each.

import { get, now } from "../api.js";
import { byId, getParam, reconcile, setParams, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { errorState } from "../ui.js";
import { countsOf, nodesOf } from "./nodes.js";
import { FILTER, Usage, WINDOW_MS } from "./usage.js";
import { createNode, drawNode, matches, updateNode } from "./worker.js";

// With more workers, nodes are closed at first, and resource use is polled less often.
const MANY = 24;
const POLL_MS = 2000;
const POLL_MANY_MS = 5000;

const table = byId("workers");
const filter = byId("filter");
const problem = byId("problem");
const usage = new Usage();
/** @type {Set<string>} nodes that a click has opened or closed */
const toggled = new Set();
/** @type {import("../records.js").Pod[] | null} */
let pods = null;
/** @type {import("./nodes.js").Node[]} */
let nodes = [];
let hasUsage = false;
/** @type {{ stop: () => void }[]} */
let polls = [];

async function fetchPods() {
  pods = await get("/api/pods/");
  show();
  // How much is fetched depends on the number of pods.
  if (polls.length === 1) polls.push(poll(fetchMetrics, showProblem));
  return POLL_MS;
}

async function fetchMetrics() {
  const oldest = now() - WINDOW_MS;
  const since = usage.newest() === 0 ? oldest : Math.max(oldest, usage.askFrom());
  const many = pods.length > MANY;
  usage.add(
    await get("/api/metrics/", {
      since: new Date(since).toISOString(),
      metric_filter: FILTER,
      summarize: many ? 30 : 75,
    }),
  );
  hasUsage = true;
  draw();
  return many ? POLL_MANY_MS : POLL_MS;
}

function show() {
  const moment = now();
  const shown = pods.filter((pod) => matches(pod, filter.value, moment));
  nodes = nodesOf(shown);
  const isFew = pods.length <= MANY || filter.value.trim() !== "";
  const isOpen = ({ node }) => isFew !== toggled.has(node);
  byId("loading").hidden = true;
  table.hidden = shown.length === 0;
  // The head of the table is an item too, so that it stays.
  reconcile(table, [null, ...nodes], (node) => (node ? `node ${node.node}` : "head"), (node) => createNode(node, toggle), (body, node) => {
    if (node) updateNode(body, node, isOpen(node), moment);
  });
  setText(byId("summary"), pods.length ? `${format.count(pods.length)} on ${format.plural(nodesOf(pods).length, "node")}: ${countsOf(pods, moment)}` : "");
  byId("none").hidden = pods.length > 0;
  byId("no-match").hidden = pods.length === 0 || shown.length > 0;
  draw();
}

function toggle(/** @type {string} */ node) {
  if (!toggled.delete(node)) toggled.add(node);
  show();
}

function draw() {
  if (!hasUsage) return;
  // One scale for all curves, so that they can be compared.
  const highest = usage.highest(pods.map((pod) => pod.name));
  const top = Math.max(1, highest.cpu);
  // The network of the workers on one machine is not measured.
  table.classList.toggle("no-network", highest.received + highest.sent === 0);
  nodes.forEach((node, i) => drawNode(table.tBodies[i], node, usage, top));
}

function showProblem(error) {
  problem.replaceChildren(errorState(error, start));
  byId("loading").hidden = true;
}

function start() {
  problem.replaceChildren();
  for (const poller of polls) poller.stop();
  polls = [poll(fetchPods, showProblem)];
}

filter.value = getParam("filter");
filter.addEventListener("input", () => {
  setParams({ filter: filter.value });
  toggled.clear();
  if (pods) show();
});
start();
