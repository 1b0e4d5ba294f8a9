// The page that compares runs: a list of runs, their charts and the verdict.

import { get, getOrNull } from "../api.js";
import { sample } from "../chart.js";
import { byId, draw, getParam, h, onSubmit, setNotice, setParams, setText } from "../dom.js";
import { plural } from "../format.js";
import { comparisonUrl } from "../grafana.js";
import { styleOf } from "../plot.js";
import { isActive, outcomeOf, sweptOf } from "../records.js";
import { urlOf } from "../root.js";
import { Side, formatSelection, parseSelection, toggled } from "../side/side.js";
import { badge, errorState } from "../ui.js";
import { toPath } from "./loader.js";
import { abbreviated, shortLabels } from "./verdict.js";

/** @import { ShownRun } from "../side/side.js" */

const list = byId("selected");
const side = new Side();
// Without a response, the page itself shows a notice.
const grafana = get("/api/info/").then((info) => info.grafana?.url, () => null);

let selected = parseSelection(getParam("runs"));
const hidden = new Set(parseSelection(getParam("hidden")).map(({ id }) => id));
/** @type {Map<number, Run>} */
const runs = new Map();
/** The best value of each run that has ended, and the last one of an active run. @type {Map<number, number | null>} */
const values = new Map();

async function fetchRuns() {
  try {
    const found = await Promise.all(selected.map(({ id }) => getOrNull(`/api/runs/${id}/`)));
    for (const run of found.filter(Boolean)) runs.set(run.id, run);
    const missing = selected.map(({ id }) => id).filter((id) => !runs.has(id));
    setNotice(byId("missing"), missing.length ? `${plural(missing.length, "run")} not found: ${missing.join(", ")}.` : "");
    show();
  } catch (error) {
    byId("side").replaceChildren(errorState(error, () => location.reload()));
  }
}

/** @returns {ShownRun[]} */
function entriesOf() {
  const known = selected.filter(({ id }) => runs.has(id));
  return known.map(({ id, place }) => ({ run: runs.get(id), ...styleOf(place), hidden: hidden.has(id) }));
}

function show() {
  const entries = entriesOf();
  setText(byId("compared"), entries.length ? plural(entries.length, "run") : "No runs to compare");
  byId("empty").hidden = entries.length > 0;
  byId("side").hidden = entries.length === 0;
  setParams({ runs: formatSelection(selected), hidden: [...hidden].join(",") });
  showList(entries);
  if (entries.length) side.show(entries);
}

function showList(/** @type {ShownRun[]} */ entries) {
  const names = shortLabels(entries.map(({ run }) => abbreviated(sweptOf(run)) || run.title));
  draw(list, entries, ({ run }) => run.id, (entry) => makeRow(entry, names[entries.indexOf(entry)]));
}

function makeRow(/** @type {ShownRun} */ { run, colour, dash, hidden: isHidden }, /** @type {string} */ name) {
  const hide = () => {
    if (!hidden.delete(run.id)) hidden.add(run.id);
    show();
  };
  const remove = () => {
    selected = toggled(selected, run.id);
    hidden.delete(run.id);
    show();
  };
  const button = { type: "button", class: "quiet" };
  const eye = { "aria-label": `Curve of run ${run.id}`, title: "Show or hide the curve", "aria-pressed": String(!isHidden) };
  return h(
    "li",
    { class: "selected-run", "data-runs": run.id, "data-hidden": isHidden },
    h("button", { ...button, class: "quiet eye", ...eye, onclick: hide }, sample({ colour, dash })),
    h("a", { href: `/runs/${run.id}`, class: "run-name", title: `${run.title} #${run.id}` }, h("bdi", {}, name), h("span", {}, ` #${run.id}`)),
    badge(...outcomeOf(run, values.get(run.id))),
    h("button", { ...button, "aria-label": `Remove run ${run.id}`, title: "Remove from the comparison", onclick: remove }, "×"),
  );
}

for (const type of ["pointerover", "focusin"]) {
  list.addEventListener(type, ({ target }) => side.highlight([Number(target.closest("li")?.dataset.runs)]));
}
for (const type of ["pointerleave", "focusout"]) list.addEventListener(type, () => side.highlight([]));
side.onFound = async (found) => {
  for (const result of found?.comparison.results ?? []) values.set(result.run_id, isActive(result) ? result.last_value : result.best_value);
  showList(entriesOf());
  const ids = found ? found.comparison.results.map((result) => result.run_id) : [];
  const [download, link] = [byId("download"), byId("grafana")];
  download.hidden = !found;
  download.href = urlOf(toPath(ids));
  byId("by-names").replaceChildren(...(found?.comparison.differences ?? []).map(({ name }) => h("option", { value: name })));
  download.download = `compare-${ids.join("-")}.json`;
  const url = await grafana;
  link.hidden = !url || !found;
  if (!link.hidden) link.href = comparisonUrl(url, found);
};

for (const name of ["target", "by"]) {
  byId(name).value = getParam(name);
  onSubmit(byId(`${name}-form`), () => side.setCriteria({ [name]: byId(name).value.trim() }));
}
fetchRuns();
