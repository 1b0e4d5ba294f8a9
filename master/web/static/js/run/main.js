// The page of one run: finds its parts, and keeps them up to date while the run goes on.

import { get } from "../api.js";
import { byId, h } from "../dom.js";
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

const page = byId("run");
const runId = Number(page.dataset.runId);

const head = new Head(
  {
    name: byId("name"),
    state: byId("state"),
    actions: byId("actions"),
    stop: byId("stop"),
    again: byId("again"),
    delete: byId("delete"),
    about: byId("about"),
    problem: byId("problem"),
    waiting: byId("waiting"),
    reason: byId("reason"),
    usage: byId("usage"),
  },
  () => runPoll.now(),
);
const progress = new Progress({
  goal: byId("goal"),
  metric: byId("goal-metric"),
  value: byId("goal-value"),
  target: byId("goal-target"),
  share: byId("goal-share"),
  figures: byId("figures"),
  departures: byId("departures"),
});
const training = new Training(
  {
    charts: byId("charts"),
    empty: byId("no-charts"),
    axis: byId("axis"),
    ranks: byId("ranks-shown"),
    ranksChoice: byId("ranks-choice"),
    metric: byId("metric"),
  },
  runId,
  () => followers.training?.now(),
);
const throughput = new Throughput(byId("throughput-chart"), byId("no-throughput"), runId);
const phases = new Phases({
  legend: byId("phases-legend"),
  rows: byId("phases-rows"),
  empty: byId("no-phases"),
  unit: byId("phases-unit"),
});
const ranks = new Ranks({
  rows: byId("ranks-rows"),
  empty: byId("no-ranks"),
  table: page.querySelector(".ranks-scroll"),
  order: byId("ranks-order"),
  orderChoice: byId("ranks-order-choice"),
});
const resources = new Resources(
  {
    chart: byId("resources-chart"),
    empty: byId("no-resources"),
    figure: byId("figure"),
    shown: byId("pods-shown"),
    shownChoice: byId("pods-choice"),
  },
  () => followers.resources?.now(),
);
const timeline = new Timeline(byId("events"), runId, (events) => training.mark(events));
const delivery = new Delivery(byId("delivery-figures"), byId("delivery-verdict"));
const logs = new Logs(
  {
    log: byId("log"),
    empty: page.querySelector(".log-empty"),
    rank: byId("log-rank"),
    stream: byId("log-stream"),
    attempt: byId("log-attempt"),
    attemptChoice: byId("log-attempt-choice"),
    follow: byId("log-follow"),
    download: byId("log-download"),
    search: byId("log-search"),
    query: byId("log-query"),
    next: byId("log-next"),
    found: byId("log-found"),
  },
  runId,
  () => followers.logs?.now(),
);
const manifest = new Manifest(byId("manifest-parts"), runId);
const grafana = new Grafana(byId("grafana"), byId("board"), byId("panels"));

let run = null;
let descriptions = new Map();
let grafanaUrl = null;
const followers = {};
menu(byId("download"), byId("downloads"));
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
  // Until it is counted, too.
  return isActive(run) || run.waiting ? RUN_MS : null;
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
  byId("loading").hidden = true;
  byId("sections").hidden = false;
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
  byId("loading").hidden = true;
  byId("sections").hidden = true;
  byId("actions").hidden = true;
  const isGone = error.status === 404;
  page.append(
    isGone
      ? emptyState(`There is no run ${runId}`, h("p", {}, h("a", { href: "/runs" }, "All runs")))
      : errorState(error, () => location.reload()),
  );
}
