// The home page: active runs, the queue, the latest results, alerts, workers and the installation.

import { listAlerts } from "../alerts.js";
import { get, now } from "../api.js";
import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { copyButton, errorState } from "../ui.js";
import { countsOf, nodesOf, showSquares } from "../workers/nodes.js";
import { CPU, Usage, current } from "../workers/usage.js";
import { ActiveRun } from "./active.js";
import { showQueue, showResults } from "./lists.js";

/**
 * @import { Pod, Run, Schemas } from "../records.js"
 * @import { Node } from "../workers/nodes.js"
 * @import { RunCurve } from "./chart.js"
 */

const [FAST_MS, POLL_MS, SLOW_MS] = [2000, 5000, 30_000];
const CPU_MS = 60_000;
const MAX_ACTIVE = 4;
const MANY_WORKERS = 64;
const MAX_RESULTS = 6;
// An API that orders by the end has the active runs at one end: they have none.
const ENDED = "finished>2000-01-01";

/** @type {Map<number, ActiveRun>} */
const cards = new Map();
/** @type {Map<number, RunCurve>} */
const curves = new Map();
const usage = new Usage();
/** @type {Run[]} */
let results = [];
let isQueueEmpty = true;
/** @type {Pod[]} */
let pods = [];

async function fetchRuns() {
  const [active, queue] = await Promise.all([
    get("/api/runs/", { state: "STARTED" }),
    get("/api/runs/", { state: "INITIALIZED" }),
  ]);
  const shown = active.slice(0, MAX_ACTIVE);
  for (const id of [...cards.keys()]) if (!shown.some((run) => run.id === id)) cards.delete(id);
  for (const run of shown) if (!cards.has(run.id)) cards.set(run.id, new ActiveRun(run.id));
  await Promise.all([fetchCurves(shown), ...shown.map((run) => cards.get(run.id).refresh(run))]);
  // Cards are added before they are shown, because a chart needs its width.
  reconcile(byId("active"), shown, (run) => run.id, (run) => cards.get(run.id).element);
  for (const run of shown) cards.get(run.id).show(run, curves.get(run.id));
  showQueue(byId("queue"), queue);
  byId("queue-section").hidden = queue.length === 0;
  setText(byId("queue-count"), `${format.count(queue.length)} waiting`);
  byId("idle").hidden = active.length > 0;
  isQueueEmpty = queue.length === 0;
  showIdle();
  if (active.length > MAX_ACTIVE) setText(byId("queue-count"), `${format.count(queue.length)} waiting, ${active.length - MAX_ACTIVE} more running`);
  return active.length + queue.length ? FAST_MS : POLL_MS;
}

async function fetchResults() {
  results = await get("/api/runs/", { query: ENDED, order: "-finished", limit: MAX_RESULTS, columns: "best,goodput" });
  await fetchCurves(results.filter((run) => run.target && !(curves.has(run.id) && run.outcome)));
  showResults(byId("results"), results, curves);
  byId("results").parentElement.removeAttribute("aria-busy");
  showIdle();
  byId("no-results").hidden = results.length > 0;
  byId("results-problem").replaceChildren();
  return results.some((run) => !run.outcome && !run.origin) ? FAST_MS : POLL_MS;
}

// The page is complete without curves.
async function fetchCurves(/** @type {Run[]} */ runs) {
  const wanted = runs.filter((run) => run.target).map((run) => run.id);
  const found = wanted.length ? await get("/api/runs/curves/", { runs: wanted.join(",") }).catch(() => []) : [];
  for (const curve of found) curves.set(curve.run_id, curve);
}

function showIdle() {
  const [last] = results;
  const ended = last?.finished_at ? `The last run ended ${format.ago(last.finished_at, now())}. ` : "";
  setText(byId("idle-text"), isQueueEmpty ? `${ended}The queue is empty.` : "The next run starts as soon as its workers are ready.");
}

async function fetchAlerts() {
  const list = byId("alert-list");
  const delay = await listAlerts(list, () => true);
  const severities = [...list.children].map((item) => /** @type {HTMLElement} */ (item).dataset.severity);
  const count = severities.length;
  if (count) byId("alerts-section").dataset.severity = severities.includes("critical") ? "critical" : "warning";
  else byId("alerts-section").removeAttribute("data-severity");
  setText(byId("alerts-count"), count || "");
  setNotice(byId("alerts-text"), count ? "" : "None. All is well.");
  return delay;
}

async function fetchPods() {
  pods = await get("/api/pods/");
  const since = new Date(now() - CPU_MS).toISOString();
  // Workers are shown without their CPU, too.
  if (pods.length) usage.add(await get("/api/metrics/", { since, metric_filter: CPU }).catch(() => ({})));
  showNodes();
  return POLL_MS;
}

function showNodes() {
  const create = (/** @type {Node} */ { node }) => h("div", { class: "node" }, h("span", { title: node }, h("bdi", {}, node)), h("ul", { class: "squares", role: "list", "aria-label": `Workers on ${node}` }), h("span", { class: "soft" }));
  reconcile(byId("nodes"), nodesOf(pods), ({ node }) => node, create, (row, { pods: workers }) => {
    showSquares(/** @type {HTMLElement} */ (row.children[1]), workers, now());
    const used = workers.map((pod) => current(usage.of(pod.name).cpu, usage.newest())).filter((value) => value !== null);
    const cores = used.reduce((sum, value) => sum + value, 0);
    setText(row.children[2], used.length ? `CPU ${format.number(cores, 2)} cores` : "");
  });
  byId("nodes").classList.toggle("many", pods.length > MANY_WORKERS);
  byId("workers-title").firstElementChild.textContent = `Workers · ${format.count(pods.length)}`;
  setText(byId("workers-count"), countsOf(pods, now()));
  setNotice(byId("workers-text"), pods.length ? "" : "Workers start when a run needs them.");
}

async function fetchStorage() {
  const [storage, info] = await Promise.all([get("/api/info/storage/"), get("/api/info/")]);
  showPairs(installationOf(storage, info));
  setNotice(byId("installation-text"), "");
  return SLOW_MS;
}

/** @returns {[string, string, boolean?][]} title and text of each part of the installation; true for a fault. */
function installationOf(/** @type {Schemas["Storage"]} */ { prometheus, database, archives, ...samples }, /** @type {import("../records.js").Info} */ info) {
  const size = prometheus?.bytes ? `, ${format.bytes(prometheus.bytes)}` : "";
  const kind = { sqlite: "SQLite", postgresql: "PostgreSQL" }[database.kind];
  const place = archives?.is_remote ? " in an object store" : "";
  return [
    ["MLBench", info.version],
    ["Prometheus", prometheus ? `${prometheus.version.split("+")[0]}, ${prometheus.retention.replace(/(\d)([a-zA-Z])/g, "$1 $2")} kept${size}` : "does not respond", !prometheus],
    ["Database", `${kind}, ${format.bytes(database.bytes)}`],
    ["Archives", archives ? `${format.count(archives.archives)}, ${format.bytes(archives.bytes)}${place}` : "do not respond", !archives],
    ["Missing samples", `${format.count(samples.missing_samples)} of ${format.count(samples.recorded_samples)}`, samples.missing_samples > 0],
  ];
}

function showPairs(/** @type {[string, string, boolean?][]} */ pairs) {
  const create = (/** @type {[string, string, boolean?]} */ [name]) => h("div", {}, h("dt", {}, name), h("dd"));
  reconcile(byId("installation"), pairs, ([name]) => name, create, (element, [, text, isBad]) => {
    setText(element.lastElementChild, text);
    element.lastElementChild.classList.toggle("bad-text", Boolean(isBad));
  });
}

/** Say of a section that its content is not known, and why. */
function unknown(/** @type {string} */ id) {
  return (/** @type {Error} */ error) => setNotice(byId(id), `Not known: ${error.message}`);
}

function showProblem(/** @type {Error} */ error) {
  byId("problem").replaceChildren(errorState(error, () => {
    byId("problem").replaceChildren();
    runs.now();
  }));
}

for (const place of document.querySelectorAll(".home-command")) {
  const command = place.querySelector("code").textContent;
  place.append(copyButton(() => command, /** @type {HTMLElement} */ (place).dataset.what));
}
const runs = poll(fetchRuns, showProblem);
poll(fetchResults, (error) => byId("results-problem").replaceChildren(h("p", { class: "soft" }, `Not known: ${error.message}`)));
poll(fetchAlerts, unknown("alerts-text"));
poll(fetchPods, unknown("workers-text"));
poll(fetchStorage, unknown("installation-text"));
