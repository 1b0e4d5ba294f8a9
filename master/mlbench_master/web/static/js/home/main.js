// The home page: active runs, the queue, the latest results, alerts, workers and the installation.

import { listAlerts } from "../alerts.js";
import { get, now } from "../api.js";
import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { Curves } from "../runs/curves.js";
import { copyButton, problemWith } from "../ui.js";
import { countsOf, nodesOf, showSquares } from "../workers/nodes.js";
import { fetchUsage } from "../workers/usage.js";
import { ActiveRun } from "./active.js";
import { showPairs, showQueue, showResults } from "./lists.js";

/** @import { Info, Run, Schemas } from "../records.js" */

const [FAST_MS, POLL_MS, SLOW_MS] = [2000, 5000, 30_000];
const CPU_MS = 60_000;
const MAX_ACTIVE = 4;
const MANY_WORKERS = 64;
const MAX_RESULTS = 6;
// An API that orders by the end has the active runs at one end: they have none.
const ENDED = "finished>2000-01-01";

/** @type {Map<number, ActiveRun>} */
const cards = new Map();
const curves = new Curves();

async function fetchRuns() {
  const [active, queue] = await Promise.all([
    get("/api/runs/", { state: "STARTED" }),
    get("/api/runs/", { state: "INITIALIZED" }),
  ]);
  const shown = active.slice(0, MAX_ACTIVE);
  for (const run of shown) if (!cards.has(run.id)) cards.set(run.id, new ActiveRun(run.id));
  await Promise.all([curves.fetch(shown, FAST_MS).catch(() => {}), ...shown.map((run) => cards.get(run.id).refresh(run))]);
  // Cards are added before they are shown, because a chart needs its width.
  reconcile(byId("active"), shown, (run) => run.id, (run) => cards.get(run.id).element);
  for (const run of shown) cards.get(run.id).show(run, curves.of(run));
  showQueue(byId("queue"), queue);
  byId("queue-section").hidden = queue.length === 0;
  const others = active.length > MAX_ACTIVE ? `, ${active.length - MAX_ACTIVE} more running` : "";
  setText(byId("queue-count"), `${format.count(queue.length)} waiting${others}`);
  byId("idle").hidden = active.length > 0;
  setText(byId("idle-text"), queue.length ? "The next run starts as soon as its workers are ready." : "The queue is empty.");
  return active.length + queue.length ? FAST_MS : POLL_MS;
}

async function fetchResults() {
  /** @type {Run[]} */
  const results = await get("/api/runs/", { query: ENDED, order: "-finished", limit: MAX_RESULTS, columns: "best,goodput" });
  await curves.fetch(results, FAST_MS).catch(() => {}); // the page is complete without curves
  showResults(byId("results"), results, curves);
  setText(byId("last-end"), results.length ? `The last run ended ${format.ago(results[0].finished_at, now())}.` : "");
  byId("no-results").hidden = results.length > 0;
  byId("results").parentElement.removeAttribute("aria-busy");
  setNotice(byId("results-problem"), "");
  return results.some((run) => !run.outcome && !run.origin) ? FAST_MS : POLL_MS;
}

async function fetchAlerts() {
  const delay = await listAlerts(byId("alert-list"));
  setText(byId("alerts-count"), byId("alert-list").childElementCount || "");
  setNotice(byId("alerts-text"), byId("alert-list").childElementCount ? "" : "None. All is well.");
  return delay;
}

async function fetchPods() {
  const pods = await get("/api/pods/");
  // Workers are shown without their CPU, too.
  const usage = pods.length ? await fetchUsage(CPU_MS, ["cpu"]).catch(() => null) : null;
  const create = (/** @type {import("../workers/nodes.js").Node} */ { node }) => {
    const squares = h("ul", { class: "squares", role: "list", "aria-label": `Workers on ${node}` });
    return h("div", { class: "node" }, h("span", { title: node }, h("bdi", {}, node)), squares, h("span", { class: "soft" }));
  };
  reconcile(byId("nodes"), nodesOf(pods), ({ node }) => node, create, (row, { pods: workers }) => {
    showSquares(/** @type {HTMLElement} */ (row.children[1]), workers, now());
    const cores = usage?.current(workers, "cpu") ?? null;
    setText(row.children[2], cores === null ? "" : `CPU ${format.number(cores, 2)} cores`);
  });
  byId("nodes").classList.toggle("many", pods.length > MANY_WORKERS);
  setText(byId("workers-title").firstElementChild, `Workers · ${format.count(pods.length)}`);
  setText(byId("workers-count"), countsOf(pods, now()));
  setNotice(byId("workers-text"), pods.length ? "" : "Workers start when a run needs them.");
  return POLL_MS;
}

async function fetchStorage() {
  /** @type {[Schemas["Storage"], Info]} */
  const [{ prometheus, database, archives, ...samples }, info] = await Promise.all([get("/api/info/storage/"), get("/api/info/")]);
  const size = prometheus?.bytes ? `, ${format.bytes(prometheus.bytes)}` : "";
  const kept = prometheus?.retention.replace(/(\d)([a-zA-Z])/g, "$1 $2");
  const kind = { sqlite: "SQLite", postgresql: "PostgreSQL" }[database.kind];
  const place = archives?.is_remote ? " in an object store" : "";
  showPairs(byId("installation"), [
    ["MLBench", info.version],
    ["Prometheus", prometheus ? `${prometheus.version.split("+")[0]}, ${kept} kept${size}` : "does not respond", "", !prometheus],
    ["Database", `${kind}, ${format.bytes(database.bytes)}`],
    ["Archives", archives ? `${format.count(archives.archives)}, ${format.bytes(archives.bytes)}${place}` : "do not respond", "", !archives],
    ["Missing samples", `${format.count(samples.missing_samples)} of ${format.count(samples.recorded_samples)}`, "", samples.missing_samples > 0],
  ]);
  setNotice(byId("installation-text"), "");
  return SLOW_MS;
}

/** Poll for a section, which says if its content is not known, and why. */
function pollFor(/** @type {() => Promise<number>} */ refresh, /** @type {string} */ id) {
  poll(refresh, (error) => setNotice(byId(id), `Not known: ${error.message}`));
}

for (const place of document.querySelectorAll(".home-command")) {
  const command = place.querySelector("code").textContent;
  place.append(copyButton(() => command, /** @type {HTMLElement} */ (place).dataset.what));
}
const runs = poll(fetchRuns, problemWith(() => runs.now()));
pollFor(fetchResults, "results-problem");
pollFor(fetchAlerts, "alerts-text");
pollFor(fetchPods, "workers-text");
pollFor(fetchStorage, "installation-text");
