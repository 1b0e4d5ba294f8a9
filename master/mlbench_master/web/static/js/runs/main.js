// The page of all runs: their table, its filters, the selection, and the dialog for a new run.

import { ApiError, get, now } from "../api.js";
import { byId, getParam, setNotice, setParams, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { ACTIVE_STATES, STATES, isActive } from "../records.js";
import { sum } from "../series.js";
import { errorState } from "../ui.js";
import { Columns } from "./columns.js";
import { Curves } from "./curves.js";
import { meansOf, orderOf, showGroups } from "./groups.js";
import { showRows } from "./list.js";
import { NewRun } from "./new-run.js";
import { Selection } from "./selection.js";

const POLL_ACTIVE_MS = 1000;
// While no run is active, for runs that are started elsewhere.
const POLL_MS = 5000;
const PAGE = 100;

const search = byId("search");
const stateSelect = byId("state");
const refused = byId("refused");
const body = byId("runs").tBodies[0];
const newRun = new NewRun(byId("new-run"));
const columns = new Columns(filter);
const curves = new Curves();
const selection = new Selection(() => poller.now());

/** @type {import("../records.js").Run[]} those that match, in their order; none while they are grouped */
let runs = [];
/** @type {import("./groups.js").RunGroup[]} */
let groups = [];
/** @type {import("../records.js").Schemas["RunCounts"]} */
let counts = null;
let maxShown = PAGE;

function wanted() {
  return { query: search.value.trim() || null, state: stateSelect.value || null };
}

function askForRuns() {
  const { group, order, names } = columns;
  if (group.length) {
    const asked = { group: group.join(","), order: orderOf(columns), columns: meansOf(columns).join(",") };
    return get("/api/runs/groups/", { ...wanted(), ...asked });
  }
  const asked = { limit: maxShown, order: order || null, columns: names.join(",") || null };
  return get("/api/runs/", { ...wanted(), ...asked });
}

async function fetchRuns() {
  const { group, order } = columns;
  try {
    const asked = [askForRuns(), get("/api/runs/counts/", { query: wanted().query })];
    const [rows, counted] = await Promise.all(asked);
    counts = counted;
    runs = group.length ? [] : order ? rows : rows.toReversed();
    groups = group.length ? rows : [];
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    byId("loading").hidden = true;
    byId("filters").hidden = false;
    for (const id of ["table", "groups-table", "no-match", "none", "rest"]) byId(id).hidden = true;
    setText(byId("summary"), "");
    setNotice(refused, error.message);
    return POLL_MS;
  }
  setNotice(refused, "");
  show();
  columns.show();
  return hasActive() && !group.length ? POLL_ACTIVE_MS : POLL_MS;
}

function hasActive() {
  return ACTIVE_STATES.some((state) => counts.states[state]);
}

function show() {
  const isNone = counts.runs === 0;
  byId("loading").hidden = true;
  byId("table").hidden = runs.length === 0;
  byId("groups-table").hidden = groups.length === 0;
  byId("selection").hidden = groups.length > 0;
  byId("filters").hidden = isNone;
  byId("none").hidden = !isNone;
  byId("start").hidden = isNone;
  byId("no-match").hidden = isNone || runs.length + groups.length > 0;
  setText(byId("query-read"), counts.query && `Query read as: ${counts.query}`);
  showGroups(groups, columns, wanted());
  showRows(body, runs, selection.ids, now(), columns.names);
  curves.show(body, runs).catch(() => {}); // the list is there without them
  showCounts();
  selection.show(runs, columns.names);
  newRun.setActive(runs.findLast(isActive) ?? (hasActive() ? { id: 0, title: "" } : undefined));
}

function showCounts() {
  const { states } = counts;
  const ofAll = sum(Object.values(states));
  const texts = [`All states (${format.count(ofAll)})`].concat(
    STATES.map((state) => `${state} (${format.count(states[state] ?? 0)})`),
  );
  texts.forEach((text, i) => setText(stateSelect.options[i], text));
  const all = format.plural(counts.runs, "run");
  const matching = stateSelect.value ? (states[stateSelect.value] ?? 0) : ofAll;
  const inGroups = groups.length ? ` in ${format.plural(groups.length, "group")}` : "";
  setText(byId("summary"), (matching < counts.runs ? `${format.count(matching)} of ${all}` : all) + inGroups);
  byId("rest").hidden = matching <= runs.length;
  setText(byId("shown"), `${format.count(runs.length)} of ${format.count(matching)} shown`);
}

function filter() {
  setParams({ query: search.value.trim(), search: "", state: stateSelect.value });
  maxShown = PAGE;
  poller.now();
}

function showProblem(error) {
  byId("loading").hidden = true;
  byId("problem").replaceChildren(errorState(error, tryAgain));
}

function tryAgain() {
  byId("problem").replaceChildren();
  poller.now();
}

search.value = getParam("query") || getParam("search"); // the name in earlier versions
stateSelect.value = STATES.includes(getParam("state")) ? getParam("state") : "";
search.addEventListener("input", filter);
stateSelect.addEventListener("change", filter);

body.addEventListener("change", ({ target }) => {
  if (target.checked) selection.ids.add(Number(target.value));
  else selection.ids.delete(Number(target.value));
  selection.show(runs, columns.names);
});
byId("clear").addEventListener("click", () => {
  selection.ids.clear();
  show();
  search.focus();
});
byId("more").addEventListener("click", () => {
  maxShown += PAGE;
  poller.now();
});
for (const button of document.querySelectorAll("[data-opens='new-run']")) {
  button.addEventListener("click", () => newRun.open());
}
get("/api/runs/fields/").then((fields) => (columns.fields = fields), () => {});
const poller = poll(fetchRuns, showProblem);
if (getParam("new")) {
  setParams({ new: "" });
  newRun.open();
}
