// The page of all runs: their table, its filters, the selection, and the dialog for a new run.

import { get, now } from "../api.js";
import { byId, getParam, setParams, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { STATES, isActive } from "../records.js";
import { errorState } from "../ui.js";
import { changedFrom, countStates, merge, replacements, select, showRows } from "./list.js";
import { NewRun } from "./new-run.js";

const POLL_ACTIVE_MS = 1000;
// While no run is active, for runs that are started elsewhere.
const POLL_MS = 5000;
const PAGE = 100;

const search = byId("search");
const stateSelect = byId("state");
const body = byId("runs").tBodies[0];
const compare = byId("compare");
const newRun = new NewRun(byId("new-run"));

/** @type {import("../records.js").Run[] | null} */
let runs = null;
let maxShown = PAGE;
let isReloadWanted = true;
const selected = new Set();

async function fetchRuns() {
  const fromId = isReloadWanted ? 0 : changedFrom(runs);
  runs = merge(runs ?? [], await get("/api/runs/", { from_id: fromId || null }), fromId);
  isReloadWanted = false;
  show();
  return runs.some(isActive) ? POLL_ACTIVE_MS : POLL_MS;
}

function show() {
  const found = select(runs, search.value, stateSelect.value);
  byId("loading").hidden = true;
  byId("table").hidden = found.length === 0;
  byId("filters").hidden = runs.length === 0;
  byId("none").hidden = runs.length > 0;
  byId("start").hidden = runs.length === 0;
  byId("no-match").hidden = runs.length === 0 || found.length > 0;
  showRows(body, found.slice(0, maxShown), replacements(runs), selected, now());
  showCounts(found.length);
  showSelection();
  newRun.setActive(runs.find(isActive));
}

function showCounts(matching) {
  const counts = countStates(runs);
  const texts = [`All states (${format.count(runs.length)})`].concat(
    STATES.map((state) => `${state} (${format.count(counts[state])})`),
  );
  texts.forEach((text, i) => setText(stateSelect.options[i], text));
  const all = format.plural(runs.length, "run");
  setText(byId("summary"), matching < runs.length ? `${format.count(matching)} of ${all}` : all);
  byId("rest").hidden = matching <= maxShown;
  setText(byId("shown"), `${format.count(maxShown)} of ${format.count(matching)} shown`);
}

function showSelection() {
  const ids = new Set(runs.map((run) => run.id));
  for (const id of selected) if (!ids.has(id)) selected.delete(id);
  compare.disabled = selected.size < 2;
  setText(byId("selected"), selected.size ? `${selected.size} selected` : "");
  byId("clear").hidden = selected.size === 0;
}

function filter() {
  setParams({ search: search.value.trim(), state: stateSelect.value });
  maxShown = PAGE;
  if (runs) show();
}

function showProblem(error) {
  byId("loading").hidden = true;
  byId("problem").replaceChildren(errorState(error, start));
}

function start() {
  isReloadWanted = true;
  byId("problem").replaceChildren();
  poll(fetchRuns, showProblem);
}

search.value = getParam("search");
stateSelect.value = STATES.includes(getParam("state")) ? getParam("state") : "";
search.addEventListener("input", filter);
stateSelect.addEventListener("change", filter);

body.addEventListener("change", ({ target }) => {
  if (target.checked) selected.add(Number(target.value));
  else selected.delete(Number(target.value));
  showSelection();
});
byId("clear").addEventListener("click", () => {
  selected.clear();
  show();
  search.focus();
});
compare.addEventListener("click", () => {
  const ids = [...selected].sort((a, b) => a - b);
  location.assign(`/compare?runs=${ids.join(",")}`);
});
byId("more").addEventListener("click", () => {
  maxShown += PAGE;
  show();
});
for (const button of document.querySelectorAll("[data-opens='new-run']")) {
  button.addEventListener("click", () => newRun.open());
}
// Registered before poll's own listener, so that the next request sees what others have deleted.
document.addEventListener("visibilitychange", () => {
  isReloadWanted = true;
});
start();
if (getParam("new")) {
  setParams({ new: "" });
  newRun.open();
}
