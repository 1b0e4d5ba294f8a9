// The page of one worker: activity, alerts, resource use and runs.

import { listAlerts } from "../alerts.js";
import { get, now } from "../api.js";
import { byId, h, setNotice, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { setOutcome } from "../outcome.js";
import { codeOf, elapsedSeconds, isActive } from "../records.js";
import { Resources } from "../resources.js";
import { badge, errorState, figure, fillTable, setBadge } from "../ui.js";
import { activityOf, stateOf } from "./nodes.js";

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
  { title: "Outcome", fill: fillOutcome },
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
  const runs = await get("/api/runs/", { pod: name, limit: MAX_RUNS, columns: "best" });
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
    axis: { title: "Time (minutes, now at 0)", place },
  });
  return SLOW_MS;
}

function showWorker() {
  byId("gone").hidden = pod !== null;
  byId("facts").hidden = pod === null;
  byId("phase").hidden = true;
  if (pod === null) return;
  const [moment, run] = [now(), pod.run_id === null ? "" : `Run ${pod.run_id}, rank ${pod.rank}`];
  setBadge(byId("phase"), pod.phase);
  byId("phase").hidden = pod.phase === "Running";
  setText(byId("does"), activityOf({ ...pod, run_id: null }, moment, pod.run_id !== null));
  byId("does").classList.toggle("bad-text", stateOf(pod, moment) === "silent");
  setNotice(byId("run"), run);
  byId("run").href = `/runs/${pod.run_id}`;
  setText(byId("node"), pod.node || format.NONE);
  setText(byId("ip"), pod.ip || format.NONE);
  setText(byId("cores"), format.spans(pod.cpus) || format.NONE);
  setText(byId("seen"), pod.seen_at === null ? "never" : format.ago(pod.seen_at, moment));
}

function isAboutIt(/** @type {import("../records.js").Alert} */ alert) {
  if (alert.pod !== null) return alert.pod === name;
  if (pod === null || pod.run_id === null) return false;
  return alert.run_id === pod.run_id && (alert.rank === null || alert.rank === pod.rank);
}

function fillOutcome(/** @type {HTMLElement} */ cell, /** @type {Run} */ run) {
  if (!cell.firstElementChild) cell.append(badge(run.state));
  setOutcome(/** @type {HTMLElement} */ (cell.firstElementChild), run);
}

function linkTo(/** @type {Run} */ run) {
  return h("a", { href: `/runs/${run.id}` }, h("bdi", {}, run.title), ` #${run.id}`);
}

function ranksHere(/** @type {Run} */ run) {
  return run.ranks.filter((rank) => rank.pod === name).map((rank) => rank.rank).join(", ");
}

function showProblem(/** @type {string} */ place, /** @type {Error} */ error) {
  byId(place).replaceChildren(errorState(error, () => location.reload()));
}
