// The page of one worker: activity, alerts, resource use and runs.

import { listAlerts } from "../alerts.js";
import { get, now } from "../api.js";
import { byId, h } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { codeOf, elapsedSeconds, isActive } from "../records.js";
import { Resources } from "../resources.js";
import { errorState, figure, fillTable, runBadge, setBadge } from "../ui.js";
import { fillFacts } from "./worker.js";

/** @import { Run } from "../records.js" */

const POLL_MS = 2000;
const SLOW_MS = 5000;
const MINUTE_MS = 60_000;
const MAX_RUNS = 100;

const name = byId("worker").dataset.pod;
const span = byId("span");
const resources = new Resources(() => usagePoll.now());
/** @type {import("../records.js").Pod | null} */
let pod = null;

const RUN_COLUMNS = [
  { title: "Run", isHead: true, fill: (cell, run) => cell.replaceChildren(linkTo(run)) },
  { title: "Outcome", fill: (cell, run) => cell.replaceChildren(runBadge(run)) },
  { title: "Benchmark", text: codeOf },
  figure("Rank", ranksHere),
  { title: "Started", text: (run) => format.moment(run.started_at) },
  figure("Duration", (run) => format.duration(elapsedSeconds(run, now()))),
];

poll(refreshWorker, (error) => showProblem("worker-problem", error));
poll(refreshAlerts, (error) => showProblem("alerts-problem", error)); // Prometheus may be away
poll(refreshRuns, (error) => showProblem("runs-problem", error));
const usagePoll = poll(refreshUsage, (error) => showProblem("resources-problem", error));
span.addEventListener("change", () => usagePoll.now());

async function refreshWorker() {
  pod = (await get("/api/pods/")).find((worker) => worker.name === name) ?? null;
  showWorker();
  return POLL_MS;
}

async function refreshAlerts() {
  const delay = await listAlerts(byId("alerts"), isAboutIt);
  byId("no-alerts").hidden = byId("alerts").childElementCount > 0;
  return delay;
}

async function refreshRuns() {
  const runs = await get("/api/runs/", { pod: name, limit: MAX_RUNS });
  const shown = runs.toReversed();
  byId("runs").hidden = shown.length === 0;
  byId("no-runs").hidden = shown.length > 0;
  fillTable(byId("runs"), RUN_COLUMNS, shown, (run) => run.id);
  return runs.some(isActive) ? POLL_MS : SLOW_MS;
}

async function refreshUsage() {
  const until = now();
  const place = (times) => times.map((time) => (time - until) / MINUTE_MS);
  await resources.refresh({
    pods: [name],
    from: until - Number(span.value) * MINUTE_MS,
    until,
    axis: { title: "Minutes ago", place },
  });
  return SLOW_MS;
}

function showWorker() {
  byId("gone").hidden = pod !== null;
  byId("facts").hidden = byId("phase").hidden = pod === null;
  if (pod === null) return;
  setBadge(byId("phase"), pod.phase);
  fillFacts(byId, pod, now());
}

function isAboutIt(/** @type {import("../records.js").Alert} */ alert) {
  if (alert.pod !== null) return alert.pod === name;
  if (pod === null || pod.run_id === null) return false;
  return alert.run_id === pod.run_id && (alert.rank === null || alert.rank === pod.rank);
}

function linkTo(/** @type {Run} */ run) {
  return h("a", { href: `/runs/${run.id}` }, `${run.id} · ${run.title}`);
}

function ranksHere(/** @type {Run} */ run) {
  return run.ranks.filter((rank) => rank.pod === name).map((rank) => rank.rank).join(", ");
}

function showProblem(/** @type {string} */ place, /** @type {Error} */ error) {
  byId(place).replaceChildren(errorState(error, () => location.reload()));
}
