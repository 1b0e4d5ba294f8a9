// The page that compares runs: its address, its fields, and its sections.

import { ApiError, get } from "../api.js";
import { byId, setParams, setText } from "../dom.js";
import { comparisonUrl } from "../grafana.js";
import { poll } from "../poll.js";
import { errorState } from "../ui.js";
import { Choice, parseRuns, toParams, toView } from "./choice.js";
import { Curves } from "./curves.js";
import { Differences } from "./differences.js";
import { hasEnded, Loader, toPath } from "./loader.js";
import { Scaling } from "./scaling.js";
import { Sweep } from "./sweep.js";
import { Times } from "./times.js";
import { showVerdict } from "./verdict.js";

const POLL_MS = 5000;

const place = byId("place");
const sections = byId("comparison");
const loader = new Loader();
const choice = new Choice(change);
const times = new Times();
const curves = new Curves(loader, change);
const scaling = new Scaling();
const sweep = new Sweep();
const differences = new Differences();

// Without a response, the page itself shows a notice.
const grafana = get("/api/info/").then(
  (info) => info.grafana?.url,
  () => null,
);

let view = toView(new URLSearchParams(location.search));
/** @type {import("./loader.js").Found | null} */
let content = null;
let poller = null;

function change(part) {
  const before = view;
  view = { ...view, ...part };
  setParams(toParams(view));
  if (view.runs !== before.runs || view.target !== before.target) poller.now();
  else if (content) curves.show(content, view).catch((error) => curves.fail(error));
}

async function refresh() {
  const asked = view;
  const { ids, wrong } = parseRuns(asked.runs);
  choice.show(asked, ids);
  choice.showProblems({ runs: wrong && `the ids of runs, such as 1,2,3 (not ${wrong})` });
  if (!ids.length) return showNothing();
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await loader.compare(ids, asked.target);
    if (asked.runs === view.runs && asked.target === view.target) return await show(answer);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    choice.showProblems(error.fields);
    if (!content) place.replaceChildren();
  } finally {
    place.removeAttribute("aria-busy");
  }
  return null;
}

function showNothing() {
  content = null;
  sections.hidden = true;
  showLinks([]);
  place.replaceChildren(byId("nothing").content.cloneNode(true));
  choice.recent.open();
  return null;
}

async function show(answer) {
  choice.showMissing(answer.missing);
  place.replaceChildren();
  content = answer.comparison && answer;
  sections.hidden = !content;
  showLinks(content ? content.comparison.results.map((result) => result.run_id) : []);
  if (!content) return null;
  choice.setNames(content.comparison.results);
  showVerdict(content.comparison);
  differences.show(content);
  times.show(content.comparison);
  scaling.show(content.comparison.groups);
  sweep.show(content.comparison);
  await curves.show(content, view);
  return answer.manifests.every(hasEnded) ? null : POLL_MS;
}

async function showLinks(ids) {
  const download = byId("download");
  download.hidden = !ids.length;
  download.href = toPath(ids, view.target);
  download.download = `compare-${ids.join("-")}.json`;
  const url = await grafana;
  const link = byId("grafana");
  link.hidden = !url || !content;
  if (!link.hidden) link.href = comparisonUrl(url, content);
}

function start() {
  setText(place, "Loading…");
  poller = poll(refresh, (error) => {
    sections.hidden = true;
    place.replaceChildren(errorState(error, start));
  });
}

start();
