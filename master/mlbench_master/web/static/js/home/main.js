// The home page: active runs, the queue, the latest results, alerts, workers and the installation.

import { listAlerts } from "../alerts.js";
import { get, now } from "../api.js";
import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import * as format from "../format.js";
import { setOutcome } from "../outcome.js";
import { poll } from "../poll.js";
import { elapsedSeconds, nameOf, resourcesOf } from "../records.js";
import { Curves } from "../runs/curves.js";
import { copyButton, problemWith, showPairs } from "../ui.js";
import { countsOf, nodesOf, showSquares } from "../workers/nodes.js";
import { fetchUsage } from "../workers/usage.js";
import { ActiveRun } from "./active.js";

const [FAST_MS, POLL_MS, SLOW_MS] = [2000, 5000, 30_000];
const CPU_MS = 60_000;
const [MAX_ACTIVE, MAX_RESULTS, MANY_WORKERS] = [4, 6, 64];
// An API that orders by the end has the active runs at one end: they have none.
const ENDED = "finished>2000-01-01";

/** @type {Map<number, ActiveRun>} */
const cards = new Map();
const curves = new Curves();

// Rows begin with the name of the run; `classes` are those of its other parts.
function fillRows(list, /** @type {Run[]} */ runs, /** @type {string[]} */ classes, fill) {
  const create = (/** @type {Run} */ run) => {
    const parts = [h("bdi", {}, nameOf(run)), h("span", { class: "soft" }, `#${run.id}`)];
    const link = h("a", { href: `/runs/${run.id}`, title: nameOf(run) }, parts);
    return h("li", {}, link, classes.map((name) => h("span", { class: name })));
  };
  reconcile(list, runs, (run) => run.id, create, (row, run) => fill([...row.children].slice(1), run));
}

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
  fillRows(byId("queue"), queue, ["soft", "soft"], ([resources, reason], run) => {
    setText(resources, resourcesOf(run));
    setText(reason, run.waiting || (run === queue[0] ? "starts next" : "waiting in the queue"));
    reason.title = reason.textContent;
  });
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
  curves.measure(results);
  fillRows(byId("results"), results, ["", "figure", "figure soft", ""], ([outcome, duration, goodput, curve], run) => {
    setOutcome(outcome, run);
    setText(duration, format.duration(elapsedSeconds(run, 0)));
    setText(goodput, typeof run.values.goodput === "number" ? `goodput ${format.percent(run.values.goodput)}` : "");
    curves.show(curve, run);
  });
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
  const [storage, info] = await Promise.all([get("/api/info/storage/"), get("/api/info/")]);
  const { prometheus, database, archives, missing_samples: missing, recorded_samples: recorded } = storage;
  const size = ({ bytes }) => (bytes ? `, ${format.bytes(bytes)}` : "");
  const kept = prometheus?.retention.replace(/(\d)([a-zA-Z])/g, "$1 $2");
  const kind = { sqlite: "SQLite", postgresql: "PostgreSQL" }[database.kind];
  const place = archives?.is_remote ? " in an object store" : "";
  const version = prometheus?.version.split("+")[0];
  showPairs(byId("installation"), [
    ["MLBench", info.version],
    ["Prometheus", prometheus ? `${version}, ${kept} kept${size(prometheus)}` : "does not respond", "", !prometheus],
    ["Database", kind + size(database)],
    ["Archives", archives ? format.count(archives.archives) + size(archives) + place : "do not respond", "", !archives],
    ["Missing samples", `${format.count(missing)} of ${format.count(recorded)}`, "", missing > 0],
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
