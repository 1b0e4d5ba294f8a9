// The selected runs: their colours, and what can be done with them: compare, tag, export, stop, delete.

import { get, patch, post, remove } from "../api.js";
import { byId, getParam, h, onSubmit, setNotice, setParams, setText } from "../dom.js";
import { rowsToCsv, save } from "../export.js";
import { plural } from "../format.js";
import { styleOf } from "../plot.js";
import { isActive } from "../records.js";
import { kept, keep } from "../store.js";
import { confirm } from "../ui.js";

/** @import { Run } from "../records.js" */

const FIELDS = /** @type {const} */ (["id", "title", "state", "outcome", "benchmark", "command", "num_workers", "created_at", "finished_at", "target_train_seconds"]);
const NOBODY = "-";
// Of a list in which no run is selected, the charts show the first runs.
const FIRST = 8;

/** @returns {(number | null)[]} the ids by colour when a run is selected or deselected: the colours of others stay. */
export function toggled(/** @type {(number | null)[]} */ places, /** @type {number} */ id) {
  const at = places.indexOf(id);
  const free = places.indexOf(null);
  const changed = at >= 0 ? places.with(at, null) : free >= 0 ? places.with(free, id) : [...places, id];
  return changed.slice(0, changed.findLastIndex((place) => place !== null) + 1);
}

/** The selected runs, each in the place that its colour has. */
export class Selection {
  /** @type {(number | null)[]} */
  #places = getParam("selected").split(",").filter(Boolean).map((text) => (text === NOBODY ? null : Number(text)));
  /** @type {Map<number, Run>} as they were shown last, also if they no longer match */
  #runs = new Map();
  /** @type {Set<number>} */
  #hidden = new Set(kept("hidden", []));
  /** @type {Run[]} */
  #first = [];

  /** `onSelect` is called when other runs are selected or drawn, `onChange` when runs have changed. */
  constructor(/** @type {() => void} */ onSelect, /** @type {() => void} */ onChange, /** @type {() => string[]} */ namesOf) {
    this.onSelect = onSelect;
    this.onChange = onChange;
    this.namesOf = namesOf;
    const actions = {
      compare: () => location.assign(`/compare?runs=${this.#places.map((id) => id ?? NOBODY).join(",")}`),
      "save-csv": () => this.save(this.ids.map((id) => this.#runs.get(id)).filter(Boolean)),
      stop: () => this.#each((id) => post(`/api/runs/${id}/stop/`), this.#active()),
      delete: () => this.#delete(),
      clear: () => this.toggle(...this.ids),
    };
    for (const [id, act] of Object.entries(actions)) byId(id).addEventListener("click", act);
    onSubmit(byId("tagging"), () => this.#addTag(byId("add-tag").value.trim()));
  }

  /** @returns {number[]} in the order of their colours. */
  get ids() {
    return this.#places.filter((id) => id !== null);
  }

  has(/** @type {number} */ id) {
    return this.#places.includes(id);
  }

  /** Select runs that are not selected, and deselect others. */
  toggle(/** @type {number[]} */ ...ids) {
    this.#places = ids.reduce(toggled, this.#places);
    setParams({ selected: this.#places.map((id) => id ?? NOBODY).join(",") });
    this.onSelect();
  }

  /** @returns {import("../side/side.js").ShownRun[]} the runs whose charts are drawn. */
  shown() {
    const places = this.ids.length ? this.#places : this.#first.map(({ id }) => id);
    return places.flatMap((id, i) => {
      const run = this.#runs.get(id) ?? this.#first.find((first) => first.id === id);
      return run ? [{ run, ...styleOf(i), hidden: this.#hidden.has(id) }] : [];
    });
  }

  /** @returns {Partial<import("../table.js").Column<Run>>} shows a run's colour in the charts, in a button that hides it there. */
  eyes() {
    return {
      make: ({ id }) => {
        const label = `Run ${id} in the charts`;
        return h("button", { type: "button", class: "runs-eye", "aria-label": label, onclick: () => this.#hide(id) });
      },
      fill: (cell, { id }) => {
        const button = /** @type {HTMLElement} */ (cell.firstElementChild);
        const at = this.ids.length ? this.#places.indexOf(id) : this.#first.findIndex((run) => run.id === id);
        button.hidden = at < 0;
        if (at < 0) return;
        const { colour, dash } = styleOf(at);
        button.style.setProperty("--series", `var(${colour})`);
        button.dataset.dash = dash;
        button.setAttribute("aria-pressed", String(!this.#hidden.has(id)));
      },
    };
  }

  #hide(id) {
    if (!this.#hidden.delete(id)) this.#hidden.add(id);
    keep({ hidden: [...this.#hidden] });
    this.onSelect();
  }

  /** Show what can be done, now that these runs are listed. */
  show(/** @type {Run[]} */ runs) {
    this.#first = runs.slice(0, FIRST);
    for (const run of runs) if (this.has(run.id)) this.#runs.set(run.id, run);
    const { length } = this.ids;
    byId("selection").hidden = length === 0;
    byId("compare").disabled = length < 2;
    setText(byId("selected"), length ? `${length} selected` : "");
    byId("stop").hidden = this.#active().length === 0;
  }

  /** Fetch the selected runs that are not in the list, such as those of an address. */
  async fetchOthers() {
    const query = this.ids.filter((id) => !this.#runs.has(id)).map((id) => `id=${id}`).join(" OR ");
    for (const run of query ? await get("/api/runs/", { query }) : []) this.#runs.set(run.id, run);
  }

  /** Save runs as CSV. */
  save(/** @type {Run[]} */ runs) {
    const names = this.namesOf();
    const valueOf = (run, name) => (name === "outcome" ? run.outcome?.kind : run[name]);
    const cells = (run) => [...FIELDS.map((name) => valueOf(run, name)), run.tags.join(" "), ...names.map((name) => run.values[name])];
    save(rowsToCsv([[...FIELDS, "tags", ...names], ...runs.map(cells)]), "runs.csv");
  }

  #active() {
    return this.ids.filter((id) => this.#runs.has(id) && isActive(this.#runs.get(id)));
  }

  async #addTag(tag) {
    if (tag && (await this.#each((id) => patch(`/api/runs/${id}/`, { add_tags: [tag] })))) byId("add-tag").value = "";
  }

  async #delete() {
    const active = this.#active().length;
    const first = active ? `${plural(active, "active run")} ${active === 1 ? "is" : "are"} stopped first. ` : "";
    const text = `${first}The runs are deleted with their logs, archives and samples in the database. Their samples in Prometheus are deleted if Prometheus allows it; otherwise they expire.`;
    if (!(await confirm(`Delete ${plural(this.ids.length, "run")}?`, text, "Delete"))) return;
    await this.#each(async (id) => {
      await remove(`/api/runs/${id}/`);
      this.#first = this.#first.filter((run) => run.id !== id);
      this.toggle(id);
    });
  }

  // Report a failure for one run, and continue with the others.
  async #each(/** @type {(id: number) => Promise<unknown>} */ act, ids = this.ids) {
    const problems = [];
    for (const id of ids) {
      await act(id).catch((error) => problems.push(`run ${id}: ${error.message}`));
    }
    setNotice(byId("not-done"), problems.join("; "));
    this.onChange();
    return problems.length === 0;
  }
}
