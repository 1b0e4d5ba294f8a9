// The page of one run: keeps its sections up to date while the run is active.

import { followAlerts } from "../alerts.js";
import { get, now } from "../api.js";
import { byId, h, setNotice } from "../dom.js";
import { showGrafana } from "../grafana.js";
import { poll } from "../poll.js";
import { isActive } from "../records.js";
import { Resources } from "../resources.js";
import * as theme from "../theme.js";
import { connectTabs, errorState } from "../ui.js";
import { BreakdownOverTime, showGoodput } from "./breakdown.js";
import { refreshFailure, refreshTimeline, showFailure } from "./events.js";
import { connectProfileForm, offerProfiles, showFiles, showProfiles } from "./files.js";
import { findingsOf, showFindings } from "./findings.js";
import { connectHead, showHead } from "./head.js";
import { Logs } from "./logs.js";
import { showManifest } from "./manifest.js";
import { Messages, peaksOf } from "./messages.js";
import { showDelivery, showProgress, showRemarks } from "./progress.js";
import { showRanks } from "./ranks.js";
import { Steps } from "./steps.js";
import { Training } from "./training.js";

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
const followers = {};
const refetch = (/** @type {string[]} */ ...names) => () => names.forEach((name) => followers[name]?.now());

const training = new Training(runId, refetch("training"), refetch("steps", "overTime", "resources"));
const steps = new Steps(runId);
const overTime = new BreakdownOverTime(runId);
const resources = new Resources(refetch("resources"));
const logs = new Logs(runId, refetch("logs"));

/** @type {Run | null} */
let run = null;
/** @type {Result | null} */
let result = null;
let isResultMissing = false;
/** @type {Alert[]} */
let alerts = [];
/** @type {Messages | null} of the communication benchmark */
let messages = null;
let commit = "";
let grafanaUrl = "";

connectPageTabs();
connectHead(() => run, () => runPoll.now(), refetch("timeline"));
connectProfileForm(runId, refetch("profiles"));
const runPoll = poll(refreshRun, showProblem);
poll(async () => {
  grafanaUrl = (await get("/api/info/")).grafana?.url;
  if (run) show();
  return null;
}, () => {}); // without it, only links are missing
followAlerts((firing) => {
  alerts = firing.filter((alert) => alert.run_id === runId);
  if (run) show();
});
theme.onChange(() => run && show()); // Grafana's panels have the theme of the page

async function refreshRun() {
  const before = run;
  run = await get(`/api/runs/${runId}/`);
  show();
  if (!before) begin();
  // Fetch everything once more after the end.
  else if (isActive(before) && !isActive(run)) {
    refetch(...Object.keys(followers))();
    setTimeout(refetch("resources"), AFTER_END_MS);
  }
  if (isActive(run) || run.waiting) return FAST_MS; // it may wait to be counted
  return run.outcome || run.archive !== null || run.origin ? null : FIGURES_MS;
}

function show() {
  showHead(run, result, commit);
  showFindings(findingsOf(run, result, alerts));
  showFailure(run);
  offerProfiles(run);
  showProgress(run, result, { isMissing: isResultMissing, peaks: messages && peaksOf(messages.operations) });
  showRemarks(run, result);
  showDelivery(run);
  if (grafanaUrl && !run.origin) showGrafana(run, grafanaUrl);
}

async function begin() {
  const slowly = run.world_size > MANY_RANKS ? 5 : 1;
  if (run.benchmark === "communication") messages = new Messages(runId);
  // Fetch the sections at the top of the page before the others.
  const figures = follow("result", "progress", FIGURES_MS * slowly, refreshResult);
  const metrics = follow("metrics", messages ? "bandwidth" : "training", FIGURES_MS * slowly, refreshMetrics);
  const curves = metrics.then(() => follow("training", "training", FAST_MS, (isReload) => training.refresh(run, isReload)));
  await Promise.race([figures, new Promise((resolve) => setTimeout(resolve, MAX_BLANK_MS))]);
  page.removeAttribute("aria-busy");
  byId("loading").hidden = true;
  byId("sections").hidden = false;
  await curves;
  follow("throughput", "training", FIGURES_MS * slowly, async (isReload) => {
    const began = training.startedAt;
    await training.refreshThroughput(run, isReload);
    if (training.startedAt !== began) refetch("timeline")();
  });
  follow("overTime", "breakdown-over-time", SLOW_MS * slowly, () => overTime.refresh(run, training.axis()));
  follow("steps", "steps", SLOW_MS * slowly, (isReload) => steps.refresh(run, isReload, training.axis(), training.extent));
  follow("resources", "resources", SLOW_MS, refreshResources);
  follow("timeline", "timeline", FIGURES_MS, async () => {
    const events = await refreshTimeline(run, training.startedAt);
    training.mark({ restarts: events.filter(({ kind }) => kind === "restarted") });
    await refreshFailure(run, events);
  });
  follow("logs", "logs", FAST_MS, () => logs.refresh(run));
  followRecord("files", SLOW_MS, (files) => showFiles(files, runId));
  followRecord("profiles", FIGURES_MS, (profiles) => {
    showProfiles(profiles, runId);
    training.mark({ profiles: profiles.filter(({ tool }) => tool) });
  });
  followRecord("manifest", SLOW_MS, (manifest) => {
    showManifest(manifest);
    commit = manifest.machines.find((machine) => machine.git)?.git.commit ?? "";
    show();
  });
}

// Show a record of the run whenever it has changed. Without changes, open details stay open.
function followRecord(/** @type {string} */ name, /** @type {number} */ ms, /** @type {(record: any) => void} */ showRecord) {
  let shown = "";
  follow(name, name, ms, async () => {
    const record = await get(`/api/runs/${runId}/${name}/`);
    if (JSON.stringify(record) !== shown) showRecord(record);
    shown = JSON.stringify(record);
  });
}

// Keep a section up to date while the run is active. The promise settles after the first fetch.
function follow(name, sectionId, ms, task) {
  const problem = h("div", { class: "section-problem" });
  byId(sectionId).append(problem);
  const again = () => {
    problem.replaceChildren();
    followers[name].now();
  };
  return new Promise((settle) => {
    followers[name] = poll(
      async () => {
        const active = isActive(run);
        await task(!active).finally(settle);
        problem.replaceChildren();
        return active ? ms : null;
      },
      (error) => {
        problem.replaceChildren(errorState(error, again));
        if (name === "result") showMissing();
      },
    );
  });
}

async function refreshMetrics(/** @type {boolean} */ isReload) {
  const metrics = run.started_at ? await get(`/api/runs/${runId}/metrics/`) : [];
  if (messages) {
    await messages.refresh(metrics.map(({ name }) => name), isReload);
    show();
  }
  if (training.setMetrics(metrics)) refetch("training")();
}

async function refreshResources() {
  // Pods of another installation may have the names of pods here.
  const isHere = run.started_at && !run.origin;
  const none = run.started_at ? "" : "Available once the run has started.";
  await resources.refresh({
    pods: isHere ? [...new Set(run.ranks.map((rank) => rank.pod))] : [],
    from: Date.parse(run.started_at),
    until: run.finished_at ? Date.parse(run.finished_at) + AFTER_END_MS : now(),
    none: run.origin ? "Not available for imported runs. See the archive." : none,
    axis: training.axis(),
  });
}

async function refreshResult() {
  result = await get(`/api/runs/${runId}/result/`);
  isResultMissing = false;
  show();
  if (training.setResumptions(result.resumptions)) refetch("training")();
  showGoodput(result);
  steps.setStraggler(result.stragglers?.named ?? null);
  showRanks(run.ranks, result);
}

// The result cannot be loaded: figures that were loaded before stay.
function showMissing() {
  isResultMissing = true;
  show();
  if (!result) for (const id of ["no-goodput", "no-ranks"]) setNotice(byId(id), "Not known");
}

function showProblem(error) {
  page.removeAttribute("aria-busy");
  for (const id of ["loading", "sections", "actions"]) byId(id).hidden = true;
  const title = h("p", { class: "empty-title" }, `Run ${runId} not found`);
  const gone = h("div", { class: "empty" }, title, h("p", {}, h("a", { href: "/runs" }, "All runs")));
  page.append(error.status === 404 ? gone : errorState(error, () => location.reload()));
}

// Links to a tab, such as those of findings, do not load the page again.
function connectPageTabs() {
  const showTab = connectTabs(byId("tabs"));
  page.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='?tab=']");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const { searchParams, hash } = new URL(link.href);
    showTab(searchParams.get("tab"));
    if (!hash) return;
    const evidence = byId(hash.slice(1));
    evidence.tabIndex = -1;
    evidence.focus({ preventScroll: true });
    evidence.scrollIntoView({ block: "center" });
  });
}
