// The page of all runs: filter, grid, selection, charts beside them, and the dialog for a new run.

import { ApiError, get, now } from "../api.js";
import { byId, getParam, setNotice, setOptions, setParams, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { ACTIVE_STATES, isActive } from "../records.js";
import { sum } from "../series.js";
import { Side } from "../side/side.js";
import { keep, kept } from "../store.js";
import { Table } from "../table.js";
import { errorState } from "../ui.js";
import { Columns, DIFFERING, titleOf } from "./columns.js";
import { Curves } from "./curves.js";
import { Filter } from "./filter.js";
import { groupColumns, meansOf, orderOf, termsOf } from "./groups.js";
import { focusedRun, listen } from "./keys.js";
import { cellsOf, headColumns, narrowColumns } from "./list.js";
import { NewRun } from "./new-run.js";
import { Picker, setCount } from "./picker.js";
import { Selection } from "./selection.js";

/** @import { Run } from "../records.js" */

const POLL_ACTIVE_MS = 1000;
// While no run is active, for runs that are started elsewhere.
const POLL_MS = 5000;
const PAGE = 100;
const SCROLLED_MS = 150;
const [ROW_PX, NARROW_ROW_PX, GROUP_ROW_PX] = [34, 56, 48];
const SIDE_PX = 1200;
const METRIC = "Metric";

const narrow = matchMedia("(max-width: 40rem)");
const newRun = new NewRun(byId("new-run"));
const filter = new Filter(refresh);
const columns = new Columns(refresh);
const curves = new Curves();
const selection = new Selection(show, () => poller.now());
const side = new Side();
const actions = {
  onSort: (field) => columns.sort(field),
  onMove: (id, before) => columns.move(id, before),
  onResize: (id, width) => columns.resize(id, width),
};
const runTable = new Table(byId("runs"), (/** @type {Run} */ run) => run.id, { ...actions, onScroll: scrolled, onRow: markRow });
const groupTable = new Table(byId("groups"), ({ values }) => termsOf(values), actions);
const columnPicker = new Picker(byId("columns"), byId("columns-panel"), () => ({ choices: choices(), chosen: columns.ids, pinned: columns.pinned }), {
  onToggle: (id) => columns.toggle(id),
  onMove: (id, before) => columns.move(id, before),
  onPin: (id) => columns.pin(id),
});
const groupPicker = new Picker(byId("group"), byId("group-panel"), () => ({ choices: fieldChoices(), chosen: columns.group, pinned: [] }), {
  onToggle: (id) => columns.groupBy(columns.group.includes(id) ? columns.group.filter((name) => name !== id) : [...columns.group, id]),
});

/** @type {Run[]} those that match, in their order; none while they are grouped */
let runs = [];
/** @type {import("./groups.js").RunGroup[]} */
let groups = [];
/** @type {import("../records.js").Schemas["RunCounts"] | null} */
let counts = null;
/** @type {unknown} */
let answered = null;
let maxShown = kept("shown", PAGE);
let isPlaced = false;
let scrollTimer = 0;

function fieldChoices() {
  return columns.fields.map(({ name, help }) => ({ id: name, title: titleOf(name), help, section: help === "Setting" ? "Settings" : help.startsWith(METRIC) ? "Metrics" : "Results" }));
}

function choices() {
  const own = [DIFFERING, "contention", "curve"].map((id) => ({ id, title: titleOf(id), help: "", section: "Results" }));
  const metrics = fieldChoices().filter(({ section }) => section === "Metrics");
  const further = metrics.flatMap(({ id, help }) => ["last", "min", "max"].map((statistic) => ({ id: `${id}.${statistic}`, title: titleOf(`${id}.${statistic}`), help, section: "Metrics" })));
  return [...own, ...fieldChoices().filter(({ section }) => section !== "Metrics"), ...further];
}

function askForRuns() {
  const { group, order } = columns;
  const query = filter.query || null;
  if (group.length)
    return get("/api/runs/groups/", { query, group: group.join(","), order: orderOf(columns), columns: meansOf(columns).join(",") });
  return get("/api/runs/", { query, limit: maxShown, order: order || null, columns: columns.requested().join(",") });
}

async function fetchRuns() {
  const { group, order } = columns;
  try {
    const [rows, counted] = await Promise.all([askForRuns(), get("/api/runs/counts/", { query: filter.query || null })]);
    counts = counted;
    // The same response is the same array, of which everything is known.
    if (rows !== answered) runs = group.length ? [] : order ? rows : rows.toReversed();
    answered = rows;
    groups = group.length ? rows : [];
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    for (const id of ["loading", "table", "groups-table", "side", "no-match", "none"]) byId(id).hidden = true;
    byId("filters").hidden = false;
    setText(byId("summary"), "");
    setNotice(byId("refused"), error.message.replace(/^(query|q|columns|group|order): /, ""));
    return POLL_MS;
  }
  setNotice(byId("refused"), "");
  await selection.fetchOthers();
  show();
  curves.fetch(runs).then((isNew) => isNew && show(), () => {}); // the list is there without them
  return hasActive() && !group.length ? POLL_ACTIVE_MS : POLL_MS;
}

function hasActive() {
  return ACTIVE_STATES.some((state) => counts.states[state]);
}

function show() {
  if (!counts) return;
  const isNone = counts.runs === 0;
  byId("loading").hidden = true;
  byId("table").hidden = runs.length === 0;
  byId("groups-table").hidden = groups.length === 0;
  byId("filters").hidden = isNone;
  byId("none").hidden = !isNone;
  byId("no-match").hidden = isNone || runs.length + groups.length > 0;
  setText(byId("query-read"), counts.query && `Query read as: ${counts.query}`);
  const title = summarize();
  filter.runs = runs;
  selection.show(runs, columns.requested());
  drawTables(title);
  setCount(byId("columns"), columns.ids.length);
  setCount(byId("group"), columns.group.length);
  columnPicker.show();
  groupPicker.show();
  offerOrders();
  showSide();
  newRun.setActive(runs.findLast(isActive) ?? (hasActive() ? { id: 0, title: "" } : undefined));
  place();
}

function drawTables(title) {
  if (groups.length) {
    groupTable.rowHeight = GROUP_ROW_PX;
    groupTable.draw(groupColumns(groups, columns, filter.query), groups, columns.order);
    return;
  }
  curves.measure(runs);
  const context = { selection, curves, title, nameWidth: columns.widths.name, now: now() };
  const chosen = columns.toColumns(runs, { now: now(), show: cellsOf(context) });
  runTable.rowHeight = narrow.matches ? NARROW_ROW_PX : ROW_PX;
  runTable.draw([...headColumns(context), ...(narrow.matches ? narrowColumns(chosen) : chosen)], runs, columns.order);
}

/** @returns {string} the head of the names: how many runs match. */
function summarize() {
  const matching = sum(Object.values(counts.states));
  const all = format.plural(counts.runs, "run");
  const inGroups = groups.length ? ` in ${format.plural(groups.length, "group")}` : "";
  const text = (matching < counts.runs ? `${format.count(matching)} of ${all}` : all) + inGroups;
  setText(byId("summary"), text);
  byId("export").disabled = !runs.length;
  return `Run · ${matching < counts.runs ? `${format.count(matching)} of ` : ""}${format.count(counts.runs)}`;
}

function markRow(line, /** @type {Run} */ run) {
  line.classList.toggle("selected", selection.has(run.id));
}

// A narrow screen has no column heads.
function offerOrders() {
  if (!narrow.matches) return;
  const orders = ["", "-created", ...["name", "outcome", ...columns.requested(), "time_to_target", "duration", "id"].flatMap((name) => [`-${name}`, name])];
  const textOf = (value) => (value ? `${titleOf(value.replace("-", ""))} ${value[0] === "-" ? "↓" : "↑"}` : "Newest first");
  setOptions(byId("order"), [...new Set([...orders, columns.order])], textOf);
  byId("order").value = columns.order;
}

/** @returns {boolean} whether the charts are beside the list: on a large screen, unless closed. */
function hasSide() {
  const asked = getParam("side");
  return asked ? asked === "open" : innerWidth >= SIDE_PX;
}

function showSide() {
  const isOpen = hasSide() && runs.length > 0;
  byId("side").hidden = !isOpen;
  byId("show-side").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) side.show(selection.shown());
}

// After Back, the list is where it was.
function place() {
  if (isPlaced || !runs.length) return;
  isPlaced = true;
  const [top, focused] = [kept("top", 0), kept("focused", 0)];
  if (top) byId("table").scrollTop = top;
  if (focused && runs.some(({ id }) => id === focused)) focusRow(focused);
}

// Remember the place, and fetch more runs before the end is reached.
function scrolled(/** @type {number} */ top, /** @type {number} */ bottom) {
  clearTimeout(scrollTimer);
  scrollTimer = setTimeout(() => keep({ top }), SCROLLED_MS);
  const isNear = 2 * bottom - top > runs.length * runTable.rowHeight;
  if (!isNear || runs.length < maxShown) return;
  maxShown += PAGE;
  keep({ shown: maxShown });
  poller.now();
}

function refresh() {
  setParams({ query: filter.query, search: "", state: "" });
  show();
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

function focusRow(/** @type {number} */ id) {
  runTable.show(id)?.querySelector("a").focus({ preventScroll: true });
}

function step(/** @type {number} */ by) {
  const at = runs.findIndex(({ id }) => id === focusedRun());
  const next = runs[at < 0 ? 0 : Math.min(runs.length - 1, Math.max(0, at + by))];
  if (next) focusRow(next.id);
}

let lastSelected = 0;
byId("runs").addEventListener("click", (event) => {
  const box = /** @type {HTMLInputElement} */ (event.target);
  if (box.type !== "checkbox") return;
  const [from, to] = [lastSelected, Number(box.value)].map((id) => runs.findIndex((run) => run.id === id));
  lastSelected = Number(box.value);
  // A label's click comes again as its box's; only that of a mouse knows the Shift key.
  if (event.shiftKey && from >= 0 && box.checked) selection.addAll(runs.slice(Math.min(from, to), Math.max(from, to) + 1).map(({ id }) => id));
  else selection.toggle(lastSelected);
});
byId("runs").addEventListener("pointerover", ({ target }) => side.highlight([Number(target.closest("tbody tr")?.dataset.key)]));
byId("runs").addEventListener("pointerleave", () => side.highlight([]));
byId("runs").addEventListener("focusin", () => keep({ focused: focusedRun() }));
byId("order").addEventListener("change", ({ target }) => {
  columns.order = target.value;
  setParams({ order: target.value });
  poller.now();
});
byId("reset-columns").addEventListener("click", () => columns.reset());
byId("export").addEventListener("click", () => selection.save(runs));
byId("show-side").addEventListener("click", () => {
  setParams({ side: hasSide() ? "closed" : "open" });
  show();
});
narrow.addEventListener("change", () => {
  byId("runs").tBodies[0].replaceChildren();
  show();
});
listen({
  "/": () => filter.focus(),
  j: () => step(1),
  k: () => step(-1),
  x: () => focusedRun() && selection.toggle(focusedRun()),
  c: () => selection.compare(),
  t: () => selection.ids.length && byId("add-tag").focus(),
  e: () => selection.ids.length && selection.save(),
  Escape: () => selection.clear(),
  "?": () => byId("keys").showModal(),
});
for (const button of document.querySelectorAll("[data-opens='new-run']")) {
  button.addEventListener("click", () => newRun.open());
}
get("/api/runs/fields/").then((fields) => {
  columns.fields = fields;
  filter.fields = fields;
  show();
}, () => {});
const poller = poll(fetchRuns, showProblem);
if (getParam("new")) {
  setParams({ new: "" });
  newRun.open();
}
