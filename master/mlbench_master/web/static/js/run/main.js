// The page of one run: keeps its sections up to date while the run is active.

import { get, now } from "../api.js";
import { byId, getParam, h, setNotice, setParams } from "../dom.js";
import { Grafana } from "../grafana.js";
import { poll } from "../poll.js";
import { isActive } from "../records.js";
import { Resources } from "../resources.js";
import { connectTabs } from "../tabs.js";
import { errorState } from "../ui.js";
import { BreakdownOverTime } from "./breakdown-over-time.js";
import { Failure } from "./failure.js";
import { Files } from "./files.js";
import { findingsOf, showFindings } from "./findings.js";
import { Goodput } from "./goodput.js";
import { Head } from "./head.js";
import { Logs } from "./logs.js";
import { Manifest } from "./manifest.js";
import { Messages, peaksOf } from "./messages.js";
import { Progress, Timeline, showDelivery } from "./progress.js";
import { Profiles } from "./profiles.js";
import { Ranks, rankFigures } from "./ranks.js";
import { Steps } from "./steps.js";
import { Throughput, Training } from "./training.js";
import { Annotations } from "./annotations.js";

const FAST_MS = 1000;
const FIGURES_MS = 2000;
const SLOW_MS = 5000;
// The last scrape comes after the end.
const AFTER_END_MS = 5000;
// The page is shown with its findings, unless the result takes longer.
const MAX_BLANK_MS = 1500;
// With more ranks, an answer has thousands of series.
const MANY_RANKS = 16;

const page = byId("run");
const runId = Number(page.dataset.runId);

const keepTab = (/** @type {string} */ tab) => setParams({ tab: tab === "overview" ? "" : tab });
const showTab = connectTabs(byId("tabs"), keepTab);
showTab(getParam("tab"));
// Links to a tab, such as those of findings, do not load the page again.
page.addEventListener("click", (event) => {
  const link = /** @type {Element} */ (event.target).closest("a[href^='?tab=']");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const { searchParams, hash } = new URL(/** @type {HTMLAnchorElement} */ (link).href);
  showTab(searchParams.get("tab"));
  keepTab(searchParams.get("tab"));
  if (!hash) return;
  const evidence = byId(hash.slice(1));
  evidence.tabIndex = -1;
  evidence.focus({ preventScroll: true });
  evidence.scrollIntoView({ block: "center" });
});
const head = new Head(() => runPoll.now());
const annotations = new Annotations(() => runPoll.now());
const progress = new Progress();
const training = new Training(
  runId,
  () => followers.training?.now(),
  () => ["steps", "overTime", "resources"].forEach((name) => followers[name]?.now()),
  () => throughput.draw(training.axis(), training.extent),
);
const throughput = new Throughput(runId);
const goodput = new Goodput();
const ranks = new Ranks();
const steps = new Steps(runId);
const overTime = new BreakdownOverTime(runId);
const resources = new Resources(() => followers.resources?.now());
const failure = new Failure(runId, () => followers.timeline?.now());
const timeline = new Timeline(runId, (events) => {
  training.setEvents(events);
  return failure.setEvents(events);
});
const logs = new Logs(runId, () => followers.logs?.now());
const files = new Files(runId);
const profiles = new Profiles(
  runId,
  () => followers.profiles?.now(),
  (records) => training.setProfiles(records),
);
const manifest = new Manifest(runId, () => show());
const grafana = new Grafana();

/** @type {import("../records.js").Run | null} */
let run = null;
let descriptions = new Map();
/** @type {import("../records.js").Alert[]} */
let alerts = [];
/** @type {Messages | null} of the communication benchmark */
let messages = null;
let grafanaUrl = null;
const followers = {};
const runPoll = poll(refreshRun, showProblem);
poll(fetchOnce, () => {}); // without it, only descriptions and links are missing
poll(refreshAlerts, () => {});

async function refreshRun() {
  const isFirst = run === null;
  const wasActive = run !== null && isActive(run);
  run = await get(`/api/runs/${runId}/`);
  show();
  if (isFirst) begin();
  // Fetch everything once more after the end.
  if (wasActive && !isActive(run)) {
    for (const follower of Object.values(followers)) follower.now();
    setTimeout(() => followers.resources?.now(), AFTER_END_MS);
  }
  if (isActive(run) || run.waiting) return FAST_MS; // it may wait to be counted
  const isSealed = run.archive !== null || run.origin;
  return run.outcome || isSealed ? null : FIGURES_MS;
}

// Fetch data that does not change while the page is open.
async function fetchOnce() {
  const [info, benchmarks] = await Promise.all([get("/api/info/"), get("/api/benchmarks/")]);
  grafanaUrl = info.grafana?.url ?? null;
  descriptions = new Map(benchmarks.map((benchmark) => [benchmark.name, benchmark.description]));
  if (run) show();
  return null;
}

function show() {
  head.show(run, progress.result, { description: descriptions.get(run.benchmark), commit: manifest.commit });
  showFindings(findingsOf(run, progress.result, alerts));
  annotations.show(run);
  failure.show(run);
  profiles.show(run);
  progress.show(run);
  showDelivery(run);
  if (grafanaUrl && !run.origin) grafana.show(run, grafanaUrl);
}

async function begin() {
  const slowly = run.world_size > MANY_RANKS ? 5 : 1;
  if (run.benchmark === "communication") messages = new Messages(runId);
  // The sections that one looks at first are fetched before all others.
  const result = follow("result", "progress", FIGURES_MS * slowly, refreshResult);
  const curves = follow("training", "training", FAST_MS, (isReload) => training.refresh(run, isReload));
  await Promise.race([result, new Promise((resolve) => setTimeout(resolve, MAX_BLANK_MS))]);
  page.removeAttribute("aria-busy");
  byId("loading").hidden = true;
  byId("sections").hidden = false;
  await curves;
  follow("metrics", messages ? "bandwidth" : "training", FIGURES_MS * slowly, refreshMetrics);
  follow("throughput", "throughput", FIGURES_MS * slowly, async (isReload) => {
    await throughput.refresh(run, isReload);
    training.setBelow(throughput.hasAny);
    throughput.draw(training.axis(), training.extent);
    timeline.firstStepAt = throughput.startedAt;
  });
  follow("overTime", "breakdown-over-time", SLOW_MS * slowly, () => overTime.refresh(run, training.axis()));
  follow("steps", "steps", SLOW_MS * slowly, (isReload) => steps.refresh(run, isReload, training.axis()));
  follow("resources", "resources", SLOW_MS, () => resources.refresh(usageOf(run)));
  follow("timeline", "timeline", FIGURES_MS, () => timeline.refresh(run));
  follow("logs", "logs", FAST_MS, () => logs.refresh(run));
  follow("files", "files", SLOW_MS, () => files.refresh());
  follow("profiles", "profiles", FIGURES_MS, () => profiles.refresh());
  follow("manifest", "manifest", SLOW_MS, () => manifest.refresh());
}

// Keep a section up to date while the run is active. The promise settles after the first fetch.
function follow(name, sectionId, ms, task) {
  let settle;
  const settled = new Promise((resolve) => (settle = resolve));
  const problem = h("div", { class: "section-problem" });
  byId(sectionId).append(problem);
  const again = () => {
    problem.replaceChildren();
    followers[name].now();
  };
  followers[name] = poll(
    async () => {
      const active = isActive(run);
      await task(!active).finally(settle);
      problem.replaceChildren();
      return active ? ms : null;
    },
    (error) => {
      problem.replaceChildren(errorState(error, again));
      if (name === "result") showUnknown();
    },
  );
  return settled;
}

async function refreshAlerts() {
  alerts = (await get("/api/alerts/")).filter((alert) => alert.run_id === runId);
  if (run) show();
  return SLOW_MS;
}

async function refreshMetrics(/** @type {boolean} */ isReload) {
  const metrics = run.started_at ? await get(`/api/runs/${runId}/metrics/`) : [];
  if (messages) {
    await messages.refresh(metrics.map(({ name }) => name), isReload);
    progress.peaks = peaksOf(messages.operations);
    progress.show(run);
  }
  if (training.setMetrics(metrics)) followers.training?.now();
}

function usageOf(/** @type {import("../records.js").Run} */ run) {
  const until = run.finished_at ? Date.parse(run.finished_at) + AFTER_END_MS : now();
  // Pods of another installation may have the names of pods here.
  const isHere = run.started_at && !run.origin;
  const pods = isHere ? [...new Set(run.ranks.map((rank) => rank.pod))] : [];
  const none = run.started_at ? "" : "Available once the run has started.";
  const elsewhere = run.origin ? "Not available for imported runs. See the archive." : "";
  const from = Date.parse(run.started_at);
  return { pods, from, until, none: elsewhere || none, axis: training.axis() };
}

async function refreshResult() {
  progress.result = await get(`/api/runs/${runId}/result/`);
  progress.hasFailed = false;
  show();
  if (training.setResumptions(progress.result.resumptions)) followers.training?.now();
  goodput.show(progress.result);
  steps.setStraggler(progress.result.stragglers?.named ?? null);
  ranks.show(rankFigures(run.ranks, progress.result), progress.result.stragglers?.named ?? null);
}

// The result cannot be loaded: figures that were loaded before stay.
function showUnknown() {
  progress.hasFailed = true;
  progress.show(run);
  if (!progress.result) for (const id of ["no-goodput", "no-ranks"]) setNotice(byId(id), "Not known");
}

function showProblem(error) {
  page.removeAttribute("aria-busy");
  byId("loading").hidden = true;
  byId("sections").hidden = true;
  byId("actions").hidden = true;
  const title = h("p", { class: "empty-title" }, `Run ${runId} not found`);
  const gone = h("div", { class: "empty" }, title, h("p", {}, h("a", { href: "/runs" }, "All runs")));
  page.append(error.status === 404 ? gone : errorState(error, () => location.reload()));
}
