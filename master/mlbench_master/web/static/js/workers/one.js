// The page of one worker: activity, alerts, resource use and runs.

import { followAlerts, listAlerts } from "../alerts.js";
import { get, now } from "../api.js";
import { byId, h, setNotice, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { codeOf, elapsedSeconds, isActive, outcomeOf } from "../records.js";
import { Resources } from "../resources.js";
import { urlOf } from "../root.js";
import { badge, errorState, figure, fillTable, setBadge } from "../ui.js";
import { activityOf, rankOf, stateOf } from "./nodes.js";

const [POLL_MS, SLOW_MS, MINUTE_MS] = [2000, 5000, 60_000];
const MAX_RUNS = 100;

const name = byId("worker").dataset.pod;
const resources = new Resources(() => usagePoll.now());
/** @type {Pod | null} */
let pod = null;

const RUN_COLUMNS = [
  { title: "Run", isHead: true, cell: ({ id, title }) => h("a", { href: `/runs/${id}` }, h("bdi", {}, title), ` #${id}`) },
  { title: "Outcome", cell: (run) => badge(...outcomeOf(run)) },
  { title: "Benchmark", text: codeOf },
  figure("Rank", (/** @type {Run} */ run) => run.ranks.filter((rank) => rank.pod === name).map(({ rank }) => rank).join(", ")),
  { title: "Started", text: (run) => format.moment(run.started_at) },
  figure("Duration", (run) => format.duration(elapsedSeconds(run, now()))),
];

async function refreshWorker() {
  pod = (await get("/api/pods/")).find((worker) => worker.name === name) ?? null;
  byId("gone").hidden = pod !== null;
  byId("facts").hidden = pod === null;
  byId("phase").hidden = pod === null || pod.phase === "Running";
  if (pod === null) return POLL_MS;
  setBadge(byId("phase"), pod.phase);
  byId("does").classList.toggle("bad-text", stateOf(pod, now()) === "silent");
  setNotice(byId("run"), rankOf(pod));
  byId("run").href = urlOf(`/runs/${pod.run_id}`);
  const seen = pod.seen_at === null ? "never" : format.ago(pod.seen_at, now());
  const facts = { does: activityOf(pod, now()), node: pod.node, ip: pod.ip, cores: format.spans(pod.cpus), seen };
  for (const [id, text] of Object.entries(facts)) setText(byId(id), text || format.NONE);
  return POLL_MS;
}

function showAlerts(/** @type {Alert[]} */ alerts) {
  const isOfRun = ({ run_id: run, rank }) => run !== null && run === pod?.run_id && (rank === null || rank === pod.rank);
  const own = alerts.filter((alert) => (alert.pod === null ? isOfRun(alert) : alert.pod === name));
  listAlerts(byId("alerts"), own);
  byId("no-alerts").hidden = own.length > 0;
}

async function refreshRuns() {
  const runs = await get("/api/runs/", { pod: name, limit: MAX_RUNS, columns: "best" });
  byId("runs").hidden = runs.length === 0;
  byId("no-runs").hidden = runs.length > 0;
  fillTable(byId("runs"), RUN_COLUMNS, runs.toReversed(), (run) => run.id);
  return runs.some(isActive) ? POLL_MS : SLOW_MS;
}

async function refreshUsage() {
  const until = now();
  const place = (times) => times.map((time) => (time - until) / MINUTE_MS);
  const axis = { title: "Time (minutes, now at 0)", place };
  await resources.refresh({ pods: [name], from: until - Number(byId("span").value) * MINUTE_MS, until, axis });
  return SLOW_MS;
}

const failIn = (/** @type {string} */ id) => (/** @type {Error} */ error) =>
  byId(id).replaceChildren(errorState(error, () => location.reload()));

poll(refreshWorker, failIn("worker-problem"));
followAlerts(showAlerts, failIn("alerts-problem")); // Prometheus may be away
poll(refreshRuns, failIn("runs-problem"));
const usagePoll = poll(refreshUsage, failIn("resources-problem"));
byId("span").addEventListener("change", () => usagePoll.now());
