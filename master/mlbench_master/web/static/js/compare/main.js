// The page that compares runs: a list of them, and beside it their charts and the verdict.

import { get, getOrNull } from "../api.js";
import { sample } from "../chart.js";
import { byId, getParam, h, onSubmit, reconcile, setNotice, setParams, setText } from "../dom.js";
import { plural } from "../format.js";
import { comparisonUrl } from "../grafana.js";
import { setOutcome } from "../outcome.js";
import { styleOf } from "../plot.js";
import { nameOf } from "../records.js";
import { formatSelection, parseSelection, toggled } from "../side/selection.js";
import { Side } from "../side/side.js";
import { errorState } from "../ui.js";
import { toPath } from "./loader.js";
import { shortLabels } from "./verdict.js";

/** @import { ShownRun } from "../side/side.js" */

const list = byId("selected");
const side = new Side();
// Without a response, the page itself shows a notice.
const grafana = get("/api/info/").then((info) => info.grafana?.url, () => null);

let selected = parseSelection(getParam("runs"));
const hidden = new Set(parseSelection(getParam("hidden")).map(({ id }) => id));
/** @type {Map<number, Run>} */
const runs = new Map();

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

function show() {
  /** @type {ShownRun[]} */
  const entries = selected.filter(({ id }) => runs.has(id)).map(({ id, place }) => {
    return { run: runs.get(id), ...styleOf(place), hidden: hidden.has(id) };
  });
  setText(byId("compared"), entries.length ? plural(entries.length, "run") : "No runs to compare");
  byId("empty").hidden = entries.length > 0;
  byId("side").hidden = entries.length === 0;
  setParams({ runs: formatSelection(selected), hidden: [...hidden].join(",") });
  const names = shortLabels(entries.map(({ run }) => (nameOf(run) === run.title ? run.title : nameOf(run).replaceAll("=", " "))));
  const keyOf = (/** @type {ShownRun} */ { run, colour, dash }) => [run.id, colour, dash].join(" ");
  reconcile(list, entries, keyOf, makeRow, (row, entry) => {
    row.querySelector("button").setAttribute("aria-pressed", String(!entry.hidden));
    row.toggleAttribute("data-hidden", entry.hidden);
    setText(row.querySelector("bdi"), names[entries.indexOf(entry)]);
  });
  if (entries.length) side.show(entries);
}

function makeRow(/** @type {ShownRun} */ { run, colour, dash }) {
  const hide = () => {
    if (!hidden.delete(run.id)) hidden.add(run.id);
    show();
  };
  const remove = () => {
    selected = toggled(selected, run.id);
    hidden.delete(run.id);
    show();
  };
  const chip = h("span", { class: "badge" });
  const button = { type: "button", class: "quiet" };
  const eye = { ...button, class: "quiet eye", "aria-label": `Curve of run ${run.id}`, title: "Show or hide the curve", onclick: hide };
  setOutcome(chip, run);
  const [light, dim] = [() => side.highlight([run.id]), () => side.highlight([])];
  return h(
    "li",
    { class: "selected-run", "data-runs": run.id, onpointerenter: light, onpointerleave: dim, onfocusin: light, onfocusout: dim },
    h("button", eye, sample({ colour, dash })),
    h("a", { href: `/runs/${run.id}`, class: "run-name", title: `${nameOf(run)} #${run.id}` }, h("bdi"), h("span", {}, ` #${run.id}`)),
    chip,
    h("button", { ...button, "aria-label": `Remove run ${run.id}`, title: "Remove from the comparison", onclick: remove }, "×"),
  );
}

side.onFound = async (found) => {
  const ids = found ? found.comparison.results.map((result) => result.run_id) : [];
  const [download, link] = [byId("download"), byId("grafana")];
  download.hidden = !found;
  download.href = toPath(ids, getParam("target"));
  download.download = `compare-${ids.join("-")}.json`;
  const url = await grafana;
  link.hidden = !url || !found;
  if (!link.hidden) link.href = comparisonUrl(url, found);
};

byId("target").value = getParam("target");
onSubmit(byId("target-form"), () => side.setTarget(byId("target").value.trim()));
fetchRuns();
