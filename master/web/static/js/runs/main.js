// The page of all runs: the table, what narrows it, what is selected, and the dialog for a new run.

import { fromAddress, toAddress } from "../address.js";
import { get, now } from "../api.js";
import { byId, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../live.js";
import { errorState, isActive } from "../pieces.js";
import { STATES, changedFrom, countStates, merge, select } from "./list.js";
import { NewRun } from "./new-run.js";
import { showRows } from "./table.js";

const POLL_ACTIVE_MS = 1000;
// Asks for one run only, so that what someone starts elsewhere is soon here.
const POLL_MS = 5000;
const PAGE = 100;

const search = byId("search");
const stateSelect = byId("state");
const body = byId("runs").tBodies[0];
const compare = byId("compare");
const newRun = new NewRun(byId("new-run"));

let runs = null;
let most = PAGE;
let isWholeWanted = true;
const selected = new Set();

async function fetchRuns() {
  const fromId = isWholeWanted ? 0 : changedFrom(runs);
  runs = merge(runs ?? [], await get("/api/runs/", { from_id: fromId || null }), fromId);
  isWholeWanted = false;
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
  showRows(body, found.slice(0, most), selected, now());
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
  const all = runs.length === 1 ? "1 run" : `${format.count(runs.length)} runs`;
  setText(byId("summary"), matching < runs.length ? `${format.count(matching)} of ${all}` : all);
  byId("rest").hidden = matching <= most;
  setText(byId("shown"), `${format.count(most)} of ${format.count(matching)} shown`);
}

function showSelection() {
  const ids = new Set(runs.map((run) => run.id));
  for (const id of selected) if (!ids.has(id)) selected.delete(id);
  compare.disabled = selected.size < 2;
  setText(byId("selected"), selected.size ? `${selected.size} selected` : "");
  byId("clear").hidden = selected.size === 0;
}

function narrow() {
  toAddress({ search: search.value.trim(), state: stateSelect.value });
  most = PAGE;
  if (runs) show();
}

function showProblem(error) {
  byId("loading").hidden = true;
  byId("problem").replaceChildren(errorState(error, start));
}

function start() {
  isWholeWanted = true;
  byId("problem").replaceChildren();
  poll(fetchRuns, showProblem);
}

search.value = fromAddress("search");
stateSelect.value = STATES.includes(fromAddress("state")) ? fromAddress("state") : "";
search.addEventListener("input", narrow);
stateSelect.addEventListener("change", narrow);

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
  most += PAGE;
  show();
});
for (const button of document.querySelectorAll("[data-opens='new-run']")) {
  button.addEventListener("click", () => newRun.open());
}
// Before polling begins to listen to the same: what others have deleted meanwhile goes.
document.addEventListener("visibilitychange", () => {
  isWholeWanted = true;
});
start();
if (fromAddress("new")) {
  toAddress({ new: "" });
  newRun.open();
}
