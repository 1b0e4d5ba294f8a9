// The page of all runs: filter, grid, selection, charts, and the dialog for a new run.

import { ApiError, get, now } from "../api.js";
import { byId, getParam, keep, kept, setNotice, setOptions, setParams, setText } from "../dom.js";
import * as format from "../format.js";
import { poll } from "../poll.js";
import { ACTIVE_STATES } from "../records.js";
import { sum } from "../series.js";
import { Side } from "../side/side.js";
import { Grid } from "../table.js";
import { problemWith } from "../ui.js";
import { Columns, DEFAULTS, DIFFERING, cellsOf, headColumns, nextOrder, titleOf, toggled } from "./columns.js";
import { Curves } from "./curves.js";
import { Filter } from "./filter.js";
import { groupColumns, meansOf, orderOf, termsOf } from "./groups.js";
import { NewRun } from "./new-run.js";
import { picker } from "./picker.js";
import { Selection, saveRuns } from "./selection.js";

// While no run is active, the list is polled for runs that are started elsewhere.
const [POLL_ACTIVE_MS, POLL_MS, SCROLLED_MS] = [1000, 5000, 150];
const PAGE = 100;
const [ROW_PX, NARROW_ROW_PX, GROUP_ROW_PX, SIDE_PX] = [34, 56, 48, 1200];
// Where keys write text, or have a meaning of their own.
const FIELDS = "input:not([type=checkbox]), select, textarea, dialog, [popover]";

const narrow = matchMedia("(max-width: 40rem)");
const newRun = new NewRun(byId("new-run"));
const filter = new Filter(refresh);
const columns = new Columns(refresh);
const curves = new Curves();
const selection = new Selection(show, () => poller.now());
const side = new Side();
const toggle = (/** @type {"ids" | "pinned" | "group"} */ list) => (id) => columns.set({ [list]: toggled(columns[list], id) });
const onMove = (id, before) => columns.move(id, before);
const grid = new Grid(byId("runs"), (/** @type {any} */ row) => row.id ?? termsOf(row.values), {
  onSort: (field) => columns.set({ order: nextOrder(columns.order, field) }),
  onMove,
  onResize: (id, width) => columns.set({ widths: { ...columns.widths, [id]: width ? Math.round(width) : undefined } }),
  onScroll: scrolled,
  propsOf: ({ id }) => ({ class: selection.has(id) && "selected" }),
});
const showColumns = picker(
  byId("columns"),
  () => ({ choices: columnChoices(), chosen: columns.ids, pinned: columns.pinned }),
  { onToggle: toggle("ids"), onMove, onPin: toggle("pinned") },
);
const showGroups = picker(
  byId("group"),
  () => ({ choices: fieldChoices(), chosen: columns.group, pinned: [] }),
  { onToggle: toggle("group") },
);

/** @type {Run[]} those that match, in their order; none while they are grouped */
let runs = [];
/** @type {RunGroup[]} */
let groups = [];
/** @type {RunCounts | null} */
let counts = null;
const hasActive = () => ACTIVE_STATES.some((state) => counts.states[state]);
let maxShown = kept("shown", PAGE);
let isPlaced = false;
let [scrollTimer, lastSelected] = [0, 0];

function fieldChoices() {
  return columns.fields.map(({ name, help }) => {
    const section = help === "Setting" ? "Settings" : help.startsWith("Metric") ? "Metrics" : "Results";
    return { id: name, title: titleOf(name), help, section };
  });
}

function columnChoices() {
  const own = [DIFFERING, "contention", "curve"].map((id) => ({ id, title: titleOf(id), help: "", section: "Results" }));
  const idsOf = ({ id, section }) => (section === "Metrics" ? ["last", "min", "max"].map((name) => `${id}.${name}`) : [id]);
  return [...own, ...fieldChoices().flatMap((choice) => idsOf(choice).map((id) => ({ ...choice, id, title: titleOf(id) })))];
}

async function fetchRuns() {
  const { group, order } = columns;
  const query = filter.query || null;
  const request = group.length
    ? get("/api/runs/groups/", { query, group: group.join(","), order: orderOf(columns), columns: meansOf(columns).join(",") })
    : get("/api/runs/", { query, limit: maxShown, order: order || null, columns: columns.requested().join(",") });
  try {
    const [rows, counted] = await Promise.all([request, get("/api/runs/counts/", { query })]);
    counts = counted;
    runs = group.length ? [] : order ? rows : rows.toReversed();
    groups = group.length ? rows : [];
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    for (const id of ["loading", "table", "side", "no-match", "none"]) byId(id).hidden = true;
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

function show() {
  if (!counts) return;
  const isNone = counts.runs === 0;
  byId("loading").hidden = true;
  byId("table").hidden = runs.length + groups.length === 0;
  byId("table").classList.toggle("runs-list", groups.length === 0);
  byId("filters").hidden = isNone;
  byId("none").hidden = !isNone;
  byId("no-match").hidden = isNone || !byId("table").hidden;
  setText(byId("query-read"), counts.query && `Query read as: ${counts.query}`);
  filter.runs = runs;
  selection.show(runs);
  showTable();
  showColumns();
  showGroups();
  offerOrders();
  const isOpen = hasSide() && runs.length > 0;
  byId("side").hidden = !isOpen;
  byId("show-side").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) side.show(selection.shown(), selection.ids.length > 0);
  restorePlace();
}

function showTable() {
  const matching = sum(Object.values(counts.states));
  const of = matching < counts.runs ? `${format.count(matching)} of ` : "";
  const inGroups = groups.length ? ` in ${format.plural(groups.length, "group")}` : "";
  setText(byId("summary"), of + format.plural(counts.runs, "run") + inGroups);
  byId("export").disabled = !runs.length;
  curves.measure(runs);
  grid.rowHeight = groups.length ? GROUP_ROW_PX : narrow.matches ? NARROW_ROW_PX : ROW_PX;
  if (groups.length) return grid.draw(groupColumns(groups, columns, filter.query), groups, columns.order);
  const head = headColumns(selection, `Run · ${of}${format.count(counts.runs)}`, columns.widths.name);
  grid.draw([...head, ...columns.toColumns(runs, now(), cellsOf(curves))], runs, columns.order);
}

// A narrow screen has no column heads.
function offerOrders() {
  const names = ["name", "outcome", ...columns.requested(), "time_to_target", "duration", "id"];
  const orders = new Set(["", ...names.flatMap((name) => [`-${name}`, name]), columns.order]);
  const textOf = (value) => (value ? `${titleOf(value.replace("-", ""))} ${value[0] === "-" ? "↓" : "↑"}` : "Newest first");
  setOptions(byId("order"), [...orders], textOf);
  byId("order").value = columns.order;
}

/** @returns {boolean} whether the charts are beside the list: on a large screen, unless closed. */
function hasSide() {
  return getParam("side") ? getParam("side") === "open" : innerWidth >= SIDE_PX;
}

// After Back, the list is where it was.
function restorePlace() {
  if (isPlaced || !runs.length) return;
  isPlaced = true;
  byId("table").scrollTop = kept("top", 0);
  focusRow(kept("focused", 0));
}

// Remember the place, and fetch more runs before the end is reached.
function scrolled(/** @type {number} */ top, /** @type {number} */ bottom) {
  clearTimeout(scrollTimer);
  scrollTimer = setTimeout(() => keep({ top }), SCROLLED_MS);
  if (2 * bottom - top < runs.length * grid.rowHeight || runs.length < maxShown) return;
  maxShown += PAGE;
  keep({ shown: maxShown });
  poller.now();
}

function refresh() {
  setParams({ query: filter.query });
  show();
  poller.now();
}

function focusRow(/** @type {number | undefined} */ id) {
  grid.show(id)?.querySelector("a").focus({ preventScroll: true });
}

/** @returns {number} the id of the run whose row has the focus; 0 without one. */
function focusedRun() {
  const row = /** @type {HTMLElement} */ (document.activeElement?.closest("#runs tbody tr"));
  return Number(row?.dataset.key ?? 0);
}

function step(/** @type {number} */ by) {
  const at = runs.findIndex(({ id }) => id === focusedRun());
  focusRow((runs[at < 0 ? 0 : at + by] ?? runs[at])?.id);
}

/** @type {Record<string, () => unknown>} */
const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  x: () => focusedRun() && selection.toggle(focusedRun()),
  "?": () => byId("keys").showModal(),
};
document.addEventListener("keydown", (event) => {
  const isElsewhere = /** @type {Element} */ (event.target).closest(FIELDS) || document.querySelector("dialog[open]");
  if (event.ctrlKey || event.metaKey || event.altKey || isElsewhere) return;
  // The template lists the other keys.
  const control = /** @type {HTMLElement} */ (document.querySelector(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`));
  if (!KEYS[event.key] && !control?.checkVisibility()) return;
  event.preventDefault();
  if (KEYS[event.key]) KEYS[event.key]();
  else if (control.matches("input")) control.focus();
  else control.click();
});
byId("runs").addEventListener("click", (event) => {
  const box = /** @type {HTMLInputElement} */ (event.target);
  if (box.type !== "checkbox") return;
  const [from, to] = [lastSelected, Number(box.value)].map((id) => runs.findIndex((run) => run.id === id)).sort((a, b) => a - b);
  lastSelected = Number(box.value);
  // A click on a label also fires a click on its checkbox; only the mouse's click has the Shift key.
  const between = event.shiftKey && from >= 0 && box.checked ? runs.slice(from, to + 1).map(({ id }) => id) : [lastSelected];
  selection.toggle(...between.filter((id) => selection.has(id) !== box.checked));
});
byId("runs").addEventListener("pointerover", ({ target }) => side.highlight([Number(target.closest("tbody tr")?.dataset.key)]));
byId("runs").addEventListener("pointerleave", () => side.highlight([]));
byId("runs").addEventListener("focusin", () => keep({ focused: focusedRun() }));
byId("order").addEventListener("change", ({ target }) => columns.set({ order: target.value }));
byId("reset-columns").addEventListener("click", () => columns.set({ ids: DEFAULTS, widths: {}, pinned: [] }));
byId("export").addEventListener("click", () => saveRuns(runs, columns.requested()));
byId("save-csv").addEventListener("click", () => saveRuns(selection.runs, columns.requested()));
byId("show-side").addEventListener("click", () => {
  setParams({ side: hasSide() ? "closed" : "open" });
  show();
});
narrow.addEventListener("change", show);
for (const button of document.querySelectorAll("[data-opens='new-run']")) {
  button.addEventListener("click", () => newRun.open());
}
get("/api/runs/fields/").then((fields) => {
  columns.fields = fields;
  filter.fields = fields;
  show();
}, () => {});
const poller = poll(fetchRuns, problemWith(() => poller.now()));
if (getParam("new")) {
  setParams({ new: "" });
  newRun.open();
}
