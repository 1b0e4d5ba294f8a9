// The page of all workers: activity and resource use of each.

import { get, now } from "../api.js";
import { byId, getParam, reconcile, setParams, setText } from "../dom.js";
import { poll } from "../poll.js";
import { errorState } from "../ui.js";
import { FILTER, Usage, WINDOW_MS } from "./usage.js";
import { createWorker, drawWorker, matches, scaleOf, summary, updateWorker } from "./worker.js";

// More workers than this are shown as rows and polled less often.
const MANY = 24;
const POLL_MS = 2000;
const POLL_MANY_MS = 5000;

const list = byId("workers");
const filter = byId("filter");
const problem = byId("problem");
const loading = byId("loading");
const usage = new Usage();
const inView = new Set();
const observer = new IntersectionObserver(noteInView, { rootMargin: "200px" });
/** @type {import("../records.js").Pod[] | null} */
let pods = null;
let tops = null;
/** @type {{ stop: () => void }[]} */
let polls = [];

async function fetchPods() {
  pods = await get("/api/pods/");
  show();
  // How much is fetched depends on the number of pods.
  if (polls.length === 1) polls.push(poll(fetchMetrics, showProblem));
  return POLL_MS;
}

async function fetchMetrics() {
  const oldest = now() - WINDOW_MS;
  const since = usage.newest() === 0 ? oldest : Math.max(oldest, usage.askFrom());
  const many = pods.length > MANY;
  usage.add(
    await get("/api/metrics/", {
      since: new Date(since).toISOString(),
      metric_filter: FILTER,
      summarize: many ? 30 : 75,
    }),
  );
  tops = scaleOf(usage.highest(pods.map((pod) => pod.name)));
  draw();
  return many ? POLL_MANY_MS : POLL_MS;
}

function show() {
  const moment = now();
  const shown = pods.filter((pod) => matches(pod, filter.value, moment));
  loading.hidden = true;
  list.classList.toggle("dense", pods.length > MANY);
  const update = (entry, pod) => updateWorker(entry, pod, moment);
  reconcile(list, shown, (pod) => pod.name, createObserved, update);
  setText(byId("summary"), pods.length ? summary(pods, moment) : "");
  byId("none").hidden = pods.length > 0;
  byId("no-match").hidden = pods.length === 0 || shown.length > 0;
}

function createObserved(pod) {
  const entry = createWorker(pod);
  observer.observe(entry);
  return entry;
}

function noteInView(changes) {
  for (const { target, isIntersecting } of changes) {
    if (isIntersecting) inView.add(target);
    else inView.delete(target);
    if (!target.isConnected) observer.unobserve(target);
  }
  draw();
}

function draw() {
  if (tops === null) return;
  for (const entry of inView) drawWorker(entry, usage, tops);
}

function showProblem(error) {
  problem.replaceChildren(errorState(error, start));
  loading.hidden = true;
}

function start() {
  problem.replaceChildren();
  for (const poller of polls) poller.stop();
  polls = [poll(fetchPods, showProblem)];
}

filter.value = getParam("filter");
filter.addEventListener("input", () => {
  setParams({ filter: filter.value });
  if (pods) show();
});
start();
