// The home page: active runs, the queue, the latest results, alerts, workers and the installation.

import { followAlerts, listAlerts } from "../alerts.js";
import { get, now } from "../api.js";
import { byId, draw, h, reconcile, setNotice, setText } from "../dom.js";
import { copyButton } from "../export.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { elapsedSeconds, outcomeOf, resourcesOf, sweptOf } from "../records.js";
import { Curves } from "../runs/curves.js";
import { badge, problemWith, showPairs } from "../ui.js";
import { countsOf, nodesOf, squaresOf } from "../workers/nodes.js";
import { fetchUsage } from "../workers/usage.js";
import { ActiveRun } from "./active.js";

const [FAST_MS, POLL_MS, SLOW_MS] = [2000, 5000, 30_000];
const CPU_MS = 60_000;
const [MAX_ACTIVE, MAX_RESULTS, MANY_WORKERS] = [4, 6, 64];
// Ended runs only: sorted by their end, active runs would come first or last, because they have no end.
const ENDED = "finished>2000-01-01";

/** @type {Map<number, ActiveRun>} */
const cards = new Map();
const curves = new Curves();

// Rows begin with the name of the run; `partsOf` returns what follows it.
function showRows(/** @type {HTMLElement} */ list, /** @type {Run[]} */ runs, /** @type {(run: Run) => Node[]} */ partsOf) {
  draw(list, runs, (run) => run.id, (run) => {
    const name = [h("bdi", {}, run.title), h("span", { class: "soft" }, `#${run.id}`)];
    return h("li", {}, h("a", { href: `/runs/${run.id}`, title: sweptOf(run) || run.title }, name), partsOf(run));
  });
}

async function fetchRuns() {
  /** @type {Run[]} */
  const runs = await get("/api/runs/", { query: "state=STARTED OR state=INITIALIZED" });
  const [active, queue] = ["STARTED", "INITIALIZED"].map((state) => runs.filter((run) => run.state === state));
  const shown = active.slice(0, MAX_ACTIVE);
  for (const run of shown) if (!cards.has(run.id)) cards.set(run.id, new ActiveRun(run.id));
  await Promise.all([curves.fetch(shown, FAST_MS).catch(() => {}), ...shown.map((run) => cards.get(run.id).refresh(run))]);
  // Cards are added before they are shown, because a chart needs its width.
  reconcile(byId("active"), shown, (run) => run.id, (run) => cards.get(run.id).element);
  for (const run of shown) cards.get(run.id).show(run, curves.of(run));
  showRows(byId("queue"), queue, (run) => {
    const reason = run.waiting || (run === queue[0] ? "starts next" : "waiting in the queue");
    return [h("span", { class: "soft" }, resourcesOf(run)), h("span", { class: "soft", title: reason }, reason)];
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
  showRows(byId("results"), results, (run) => [
    h("span", {}, badge(...outcomeOf(run))),
    h("span", { class: "figure" }, format.duration(elapsedSeconds(run, 0))),
    h("span", { class: "figure soft" }, typeof run.values.goodput === "number" && `goodput ${format.percent(run.values.goodput)}`),
    h("span", {}, curves.draw(run)),
  ]);
  setText(byId("last-end"), results.length ? `The last run ended ${format.ago(results[0].finished_at, now())}.` : "");
  byId("no-results").hidden = results.length > 0;
  byId("results").parentElement.removeAttribute("aria-busy");
  setNotice(byId("results-problem"), "");
  return results.some((run) => !run.outcome && !run.origin) ? FAST_MS : POLL_MS;
}

async function fetchPods() {
  const pods = await get("/api/pods/");
  // Workers are shown without their CPU, too.
  const usage = pods.length ? await fetchUsage(CPU_MS, ["cpu"]).catch(() => null) : null;
  draw(byId("nodes"), nodesOf(pods), ({ node }) => node, ({ node, pods: workers }) => {
    const cores = usage?.current(workers, "cpu") ?? null;
    const used = h("span", { class: "soft" }, cores !== null && `CPU ${cores.toFixed(2)} cores`);
    return h("div", { class: "node" }, h("span", { title: node }, h("bdi", {}, node)), squaresOf(node, workers, now()), used);
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

// Say in a part of the page that its content is not known, and why.
const failIn = (/** @type {string} */ id) => (/** @type {Error} */ { message }) => setNotice(byId(id), `Not known: ${message}`);

for (const place of document.querySelectorAll(".home-command")) {
  const command = place.querySelector("code").textContent;
  place.append(copyButton(() => command, /** @type {HTMLElement} */ (place).dataset.what));
}
const runs = poll(fetchRuns, problemWith(() => runs.now()));
poll(fetchResults, failIn("results-problem"));
poll(fetchPods, failIn("workers-text"));
poll(fetchStorage, failIn("installation-text"));
followAlerts((alerts) => {
  const list = byId("alert-list");
  listAlerts(list, alerts);
  setText(byId("alerts-count"), list.childElementCount || "");
  setNotice(byId("alerts-text"), list.childElementCount ? "" : "None. All is well.");
}, failIn("alerts-text"));
