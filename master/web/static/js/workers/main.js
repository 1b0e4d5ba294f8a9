// The page of the workers: which there are, what they do, and what they use.

import { fromAddress, toAddress } from "../address.js";
import { get, now } from "../api.js";
import { byId, keep, setText } from "../dom.js";
import { poll } from "../live.js";
import { errorState } from "../pieces.js";
import { createRow, drawRow, scaleOf, updateRow } from "./row.js";
import { FILTER, Usage, WINDOW_MS } from "./usage.js";
import { matches, summary } from "./words.js";

// With more than these, a card each would take too much room.
const MOST_CARDS = 24;
const POLL_MS = 2000;
const POLL_MANY_MS = 5000;

const list = byId("workers");
const filter = byId("filter");
const problem = byId("problem");
const loading = byId("loading");
const usage = new Usage();
const inView = new Set();
const watcher = new IntersectionObserver(noteInView, { rootMargin: "200px" });
let pods = null;
let tops = null;
/** @type {{ stop: () => void }[]} */
let polls = [];

async function fetchPods() {
  pods = await get("/api/pods/");
  show();
  // How much is asked for depends on how many there are.
  if (polls.length === 1) polls.push(poll(fetchMetrics, showProblem));
  return POLL_MS;
}

async function fetchMetrics() {
  const oldest = now() - WINDOW_MS;
  const since = usage.newest() === 0 ? oldest : Math.max(oldest, usage.askFrom());
  const many = pods.length > MOST_CARDS;
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
  list.classList.toggle("dense", pods.length > MOST_CARDS);
  keep(list, shown, (pod) => pod.name, createWatched, (row, pod) => updateRow(row, pod, moment));
  setText(byId("summary"), pods.length ? summary(pods, moment) : "");
  byId("none").hidden = pods.length > 0;
  byId("no-match").hidden = pods.length === 0 || shown.length > 0;
}

function createWatched(pod) {
  const row = createRow(pod);
  watcher.observe(row);
  return row;
}

function noteInView(entries) {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) inView.add(target);
    else inView.delete(target);
    if (!target.isConnected) watcher.unobserve(target);
  }
  draw();
}

function draw() {
  if (tops === null) return;
  for (const row of inView) drawRow(row, usage, tops);
}

function showProblem(error) {
  problem.replaceChildren(errorState(error, start));
  loading.hidden = true;
}

function start() {
  problem.replaceChildren();
  for (const one of polls) one.stop();
  polls = [poll(fetchPods, showProblem)];
}

filter.value = fromAddress("filter");
filter.addEventListener("input", () => {
  toAddress({ filter: filter.value });
  if (pods) show();
});
start();
