// The selected runs: their colours, and the actions on them: compare, tag, export, stop, delete.

import { get, patch, post, remove } from "../api.js";
import { byId, getParam, h, keep, kept, onSubmit, setNotice, setParams, setText } from "../dom.js";
import { rowsToCsv, save } from "../export.js";
import { plural } from "../format.js";
import { styleOf } from "../plot.js";
import { isActive } from "../records.js";
import { urlOf } from "../root.js";
import { formatSelection, parseSelection, toggled } from "../side/side.js";
import { confirm } from "../ui.js";

const FIELDS = "id title state outcome benchmark command num_workers created_at finished_at target_train_seconds".split(" ");
const PROMETHEUS = "Their samples in Prometheus are deleted if Prometheus allows it; otherwise they expire.";
// If no run is selected, the charts show this number of runs, from the first.
const FIRST = 8;

/** Save runs as CSV, with these values of each. */
export function saveRuns(/** @type {Run[]} */ runs, /** @type {string[]} */ names) {
  const valueOf = (run, name) => (name === "outcome" ? run.outcome?.kind : run[name]);
  const cells = (run) => [...FIELDS.map((name) => valueOf(run, name)), run.tags.join(" "), ...names.map((name) => run.values[name])];
  save(rowsToCsv([[...FIELDS, "tags", ...names], ...runs.map(cells)]), "runs.csv");
}

/** The selected runs, each with a place that gives its colour. */
export class Selection {
  #selected = parseSelection(getParam("selected"));
  /** @type {Map<number, Run>} as they were shown last, also if they no longer match */
  #runs = new Map();
  /** @type {Set<number>} */
  #hidden = new Set(kept("hidden", []));
  /** @type {import("../side/side.js").Selected[]} */
  #first = [];

  /** `onSelect` is called when other runs are selected or drawn, `onChange` when runs have changed. */
  constructor(/** @type {() => void} */ onSelect, /** @type {() => void} */ onChange) {
    this.onSelect = onSelect;
    this.onChange = onChange;
    const actions = {
      compare: () => location.assign(urlOf(`/compare?runs=${formatSelection(this.#selected)}`)),
      stop: () => this.#each((id) => post(`/api/runs/${id}/stop/`), this.#active),
      delete: () => this.#delete(),
      clear: () => this.toggle(...this.ids),
    };
    for (const [id, act] of Object.entries(actions)) byId(id).addEventListener("click", act);
    onSubmit(byId("tagging"), async () => {
      const tag = byId("add-tag").value.trim();
      if (tag && (await this.#each((id) => patch(`/api/runs/${id}/`, { add_tags: [tag] })))) byId("add-tag").value = "";
    });
  }

  /** @returns {number[]} in the order of their colours. */
  get ids() {
    return this.#selected.map(({ id }) => id);
  }

  /** @returns {Run[]} the selected runs that have been found. */
  get runs() {
    return this.ids.map((id) => this.#runs.get(id)).filter(Boolean);
  }

  has(/** @type {number} */ id) {
    return this.ids.includes(id);
  }

  /** Select runs that are not selected, and deselect others. */
  toggle(/** @type {number[]} */ ...ids) {
    this.#selected = ids.reduce(toggled, this.#selected);
    setParams({ selected: formatSelection(this.#selected) });
    this.onSelect();
  }

  /** @returns {import("../side/side.js").ShownRun[]} the runs whose charts are drawn. */
  shown() {
    const drawn = this.#drawn.filter(({ id }) => this.#runs.has(id));
    return drawn.map(({ id, place }) => ({ run: this.#runs.get(id), ...styleOf(place), hidden: this.#hidden.has(id) }));
  }

  get #drawn() {
    return this.#selected.length ? this.#selected : this.#first;
  }

  /** @returns {HTMLElement} a button with a run's colour in the charts, which hides the run there. */
  eye(/** @type {number} */ id) {
    const drawn = this.#drawn.find((run) => run.id === id);
    const { colour, dash } = styleOf(drawn?.place ?? 0);
    const hide = () => {
      if (!this.#hidden.delete(id)) this.#hidden.add(id);
      keep({ hidden: [...this.#hidden] });
      this.onSelect();
    };
    const names = { class: "runs-eye", "aria-label": `Run ${id} in the charts`, "aria-pressed": String(!this.#hidden.has(id)) };
    const look = { hidden: !drawn, "data-dash": dash, style: { "--series": `var(${colour})` } };
    return h("button", { type: "button", ...names, ...look, onclick: hide });
  }

  /** Show what can be done, now that these runs are listed. */
  show(/** @type {Run[]} */ runs) {
    this.#first = runs.slice(0, FIRST).map(({ id }, place) => ({ id, place }));
    for (const run of runs) this.#runs.set(run.id, run);
    const { length } = this.ids;
    byId("selection").hidden = length === 0;
    byId("compare").disabled = length < 2;
    setText(byId("selected"), length ? `${length} selected` : "");
    byId("stop").hidden = this.#active.length === 0;
  }

  /** Fetch the selected runs that are not in the list, such as those of an address. */
  async fetchOthers() {
    const query = this.ids.filter((id) => !this.#runs.has(id)).map((id) => `id=${id}`).join(" OR ");
    for (const run of query ? await get("/api/runs/", { query }) : []) this.#runs.set(run.id, run);
  }

  get #active() {
    return this.runs.filter(isActive).map(({ id }) => id);
  }

  async #delete() {
    const active = this.#active.length;
    const first = active ? `${plural(active, "active run")} ${active === 1 ? "is" : "are"} stopped first. ` : "";
    const text = `${first}The runs are deleted with their logs, archives and samples in the database. ${PROMETHEUS}`;
    if (!(await confirm(`Delete ${plural(this.ids.length, "run")}?`, text, "Delete"))) return;
    await this.#each(async (id) => {
      await remove(`/api/runs/${id}/`);
      this.toggle(id);
    });
  }

  // Report a failure for one run, and continue with the others.
  async #each(/** @type {(id: number) => Promise<unknown>} */ act, ids = this.ids) {
    const problems = [];
    for (const id of ids) await act(id).catch((error) => problems.push(`run ${id}: ${error.message}`));
    setNotice(byId("not-done"), problems.join("; "));
    this.onChange();
    return problems.length === 0;
  }
}
