// The page of one run: finds its parts, and keeps them up to date while the run goes on.

import { get } from "../api.js";
import { h } from "../dom.js";
import { poll } from "../live.js";
import { emptyState, errorState, isActive } from "../pieces.js";
import { Delivery } from "./delivery.js";
import { Grafana } from "./grafana.js";
import { Head } from "./head.js";
import { Logs } from "./logs.js";
import { Manifest } from "./manifest.js";
import { menu } from "./menu.js";
import { Phases } from "./phases.js";
import { Progress } from "./progress.js";
import { rankFigures } from "./rankfigures.js";
import { Ranks } from "./ranks.js";
import { lastValues } from "./recorded.js";
import { Resources } from "./resources.js";
import { Throughput } from "./throughput.js";
import { Timeline } from "./timeline.js";
import { Training } from "./training.js";

const RUN_MS = 1000;
const CURVES_MS = 1000;
const LOGS_MS = 1000;
const FIGURES_MS = 2000;
const SLOW_MS = 5000;
// With so many ranks, an answer has thousands of series.
const MANY_RANKS = 16;

const page = document.getElementById("run");
const runId = Number(page.dataset.runId);
/** @type {(id: string) => any} */
const part = (id) => document.getElementById(id);

const head = new Head(
  {
    name: part("name"),
    state: part("state"),
    actions: part("actions"),
    stop: part("stop"),
    again: part("again"),
    delete: part("delete"),
    about: part("about"),
    problem: part("problem"),
    waiting: part("waiting"),
    reason: part("reason"),
    usage: part("usage"),
  },
  () => runPoll.now(),
);
const progress = new Progress({
  goal: part("goal"),
  metric: part("goal-metric"),
  value: part("goal-value"),
  target: part("goal-target"),
  share: part("goal-share"),
  figures: part("figures"),
  departures: part("departures"),
});
const training = new Training(
  {
    charts: part("charts"),
    empty: part("no-charts"),
    axis: part("axis"),
    ranks: part("ranks-shown"),
    ranksChoice: part("ranks-choice"),
    metric: part("metric"),
  },
  runId,
  () => followers.training?.now(),
);
const throughput = new Throughput(part("throughput-chart"), part("no-throughput"), runId);
const phases = new Phases({
  legend: part("phases-legend"),
  rows: part("phases-rows"),
  empty: part("no-phases"),
  unit: part("phases-unit"),
});
const ranks = new Ranks({
  rows: part("ranks-rows"),
  empty: part("no-ranks"),
  table: page.querySelector(".ranks-scroll"),
  order: part("ranks-order"),
  orderChoice: part("ranks-order-choice"),
});
const resources = new Resources(
  {
    chart: part("resources-chart"),
    empty: part("no-resources"),
    figure: part("figure"),
    shown: part("pods-shown"),
    shownChoice: part("pods-choice"),
  },
  () => followers.resources?.now(),
);
const timeline = new Timeline(part("events"), runId, (events) => training.mark(events));
const delivery = new Delivery(part("delivery-figures"), part("delivery-verdict"));
const logs = new Logs(
  {
    log: part("log"),
    empty: page.querySelector(".log-empty"),
    rank: part("log-rank"),
    stream: part("log-stream"),
    attempt: part("log-attempt"),
    attemptChoice: part("log-attempt-choice"),
    follow: part("log-follow"),
    download: part("log-download"),
    search: part("log-search"),
    query: part("log-query"),
    next: part("log-next"),
    found: part("log-found"),
  },
  runId,
  () => followers.logs?.now(),
);
const manifest = new Manifest(part("manifest-parts"), runId);
const grafana = new Grafana(part("grafana"), part("board"), part("panels"));

let run = null;
let descriptions = new Map();
let grafanaUrl = null;
const followers = {};
menu(part("download"), part("downloads"));
const runPoll = poll(refreshRun, showProblem);
poll(learn, () => {}); // without it, only words and links are missing

async function refreshRun() {
  const isFirst = run === null;
  const wasActive = run !== null && isActive(run);
  run = await get(`/api/runs/${runId}/`);
  show();
  if (isFirst) begin();
  // What came last is fetched once more.
  if (wasActive && !isActive(run)) for (const follower of Object.values(followers)) follower.now();
  return isActive(run) ? RUN_MS : null;
}

// What does not change while the page is open.
async function learn() {
  const [info, benchmarks] = await Promise.all([get("/api/info/"), get("/api/benchmarks/")]);
  grafanaUrl = info.grafana?.url ?? null;
  descriptions = new Map(benchmarks.map((one) => [one.name, one.description]));
  if (run) show();
  return null;
}

function show() {
  head.show(run, descriptions.get(run.benchmark) ?? "");
  progress.show(run);
  delivery.show(run);
  if (grafanaUrl) grafana.show(run, grafanaUrl);
}

async function begin() {
  page.removeAttribute("aria-busy");
  part("loading").hidden = true;
  part("sections").hidden = false;
  const slowly = run.num_workers > MANY_RANKS ? 5 : 1;
  // What one looks at first does not share the master with all the rest.
  await follow("training", "training", CURVES_MS, (isWhole) => training.refresh(run, isWhole));
  follow("figures", "ranks", FIGURES_MS * slowly, refreshFigures);
  follow("throughput", "throughput", FIGURES_MS * slowly, (isWhole) =>
    throughput.refresh(run, isWhole),
  );
  follow("result", "progress", SLOW_MS, refreshResult);
  follow("resources", "resources", SLOW_MS, () => resources.refresh(run));
  follow("timeline", "timeline", FIGURES_MS, () => timeline.refresh(run));
  follow("logs", "logs", LOGS_MS, () => logs.refresh(run));
  follow("manifest", "manifest", SLOW_MS, () => manifest.refresh());
}

/**
 * Keep one part up to date while the run goes on, and fetch it once more after its end.
 * @returns {Promise<void>} until it was fetched once, or could not be
 */
function follow(name, sectionId, ms, task) {
  let settle;
  const settled = new Promise((resolve) => (settle = resolve));
  const problem = h("div", { class: "section-problem" });
  part(sectionId).append(problem);
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
    (error) => problem.replaceChildren(errorState(error, again)),
  );
  return settled;
}

async function refreshFigures() {
  const last = run.started_at ? await lastValues(runId) : new Map();
  if (training.know(last)) followers.training?.now();
  const figures = rankFigures(run.ranks, last);
  phases.show(figures);
  ranks.show(figures);
}

async function refreshResult() {
  progress.know(await get(`/api/runs/${runId}/result/`));
  progress.show(run);
}

function showProblem(error) {
  page.removeAttribute("aria-busy");
  part("loading").hidden = true;
  part("sections").hidden = true;
  part("actions").hidden = true;
  const isGone = error.status === 404;
  page.append(
    isGone
      ? emptyState(`There is no run ${runId}`, h("p", {}, h("a", { href: "/runs" }, "All runs")))
      : errorState(error, () => location.reload()),
  );
}
