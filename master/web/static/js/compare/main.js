// Wires the compare page: its address, its fields, and its sections.

import { fromAddress, toAddress } from "../address.js";
import { ApiError, get } from "../api.js";
import { byId, setText } from "../dom.js";
import { poll } from "../live.js";
import { errorState } from "../pieces.js";
import { Choice } from "./choice.js";
import { Contrast } from "./contrast.js";
import { grafanaUrl } from "./elsewhere.js";
import { hasEnded, Loader, toPath } from "./loading.js";
import { Overlay } from "./overlay.js";
import { Scaling } from "./scaling.js";
import { Statement } from "./statement.js";
import { Times } from "./times.js";
import { parseRuns, toParams, toView } from "./view.js";

const POLL_MS = 5000;

const place = byId("place");
const sections = byId("comparison");
const loader = new Loader();
const choice = new Choice(
  {
    form: byId("choice"),
    runs: byId("runs"),
    runsProblem: byId("runs-problem"),
    goal: byId("goal"),
    goalProblem: byId("goal-problem"),
    chips: byId("chips"),
    missing: byId("missing"),
    picker: {
      folded: byId("recent"),
      search: byId("recent-search"),
      list: byId("recent-runs"),
      note: byId("recent-note"),
    },
  },
  change,
);
const statement = new Statement({
  card: byId("verdict"),
  title: byId("verdict-title"),
  text: byId("verdict-text"),
  reasons: byId("verdict-reasons"),
  notes: byId("verdict-notes"),
});
const times = new Times({
  bars: byId("times-bars"),
  note: byId("times-note"),
  table: byId("times-table"),
});
const overlay = new Overlay(
  {
    metric: byId("metric"),
    axes: [byId("axis-training"), byId("axis-wall"), byId("axis-step")],
    scale: byId("scale"),
    scaleChoice: byId("scale-choice"),
    chart: byId("curves-chart"),
    legend: byId("curves-legend"),
    note: byId("curves-note"),
  },
  loader,
  change,
);
const scaling = new Scaling({
  speedup: byId("speedup"),
  speedupNote: byId("speedup-note"),
  phases: byId("phases"),
  phasesNote: byId("phases-note"),
  table: byId("groups"),
});
const contrast = new Contrast({
  filter: byId("differences-filter"),
  note: byId("differences-note"),
  facts: byId("facts"),
  folded: byId("packages-folded"),
  summary: byId("packages-title"),
  packages: byId("packages"),
});

// Without an answer the page itself says what is wrong.
const grafana = get("/api/info/").then(
  (info) => info.grafana?.url,
  () => null,
);

let view = toView(fromAddress);
let found = null;
let poller = null;

function change(part) {
  const before = view;
  view = { ...view, ...part };
  toAddress(toParams(view));
  if (view.runs === before.runs && view.goal === before.goal) showCurves();
  else poller.now();
}

async function refresh() {
  const asked = view;
  const { ids, wrong } = parseRuns(asked.runs);
  choice.show(asked, ids);
  choice.tell({ runs: wrong && `the ids of runs, such as 1,2,3 (not ${wrong})` });
  if (!ids.length) return showNothing();
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await loader.compare(ids, asked.goal);
    if (asked.runs === view.runs && asked.goal === view.goal) return await show(answer);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    choice.tell(error.fields);
    if (!found) place.replaceChildren();
  } finally {
    place.removeAttribute("aria-busy");
  }
  return null;
}

function showNothing() {
  found = null;
  sections.hidden = true;
  showLinks([]);
  place.replaceChildren(byId("nothing").content.cloneNode(true));
  choice.open();
  return null;
}

async function show(answer) {
  choice.tellMissing(answer.missing);
  place.replaceChildren();
  found = answer.comparison && answer;
  sections.hidden = !found;
  showLinks(found ? found.comparison.results.map((result) => result.run_id) : []);
  if (!found) return null;
  choice.name(found.comparison.results);
  statement.show(found.comparison);
  contrast.show(found);
  await Promise.all([
    overlay.show(found, view),
    times.show(found.comparison),
    scaling.show(found.comparison.groups),
  ]);
  return answer.manifests.every(hasEnded) ? null : POLL_MS;
}

function showCurves() {
  if (found) overlay.show(found, view).catch((error) => overlay.fail(error));
}

async function showLinks(ids) {
  const download = byId("download");
  download.hidden = !ids.length;
  download.href = toPath(ids, view.goal);
  download.download = `compare-${ids.join("-")}.json`;
  const url = await grafana;
  const link = byId("grafana");
  link.hidden = !url || !found;
  if (!link.hidden) link.href = grafanaUrl(url, found, view.metric);
}

function start() {
  setText(place, "Loading…");
  poller = poll(refresh, (error) => {
    sections.hidden = true;
    place.replaceChildren(errorState(error, start));
  });
}

start();
