// Actions on the selected runs: compare, tag, save as CSV, stop, delete.

import { patch, post, remove } from "../api.js";
import { byId, onSubmit, setNotice, setText } from "../dom.js";
import { rowsToCsv, saveCsv } from "../export.js";
import { plural } from "../format.js";
import { isActive } from "../records.js";
import { confirm } from "../ui.js";

/** @import { Run } from "../records.js" */

const COLUMNS = /** @type {const} */ (["id", "title", "state", "outcome", "benchmark", "command", "num_workers", "created_at", "finished_at", "target_train_seconds"]);

/** The ids of the selected runs, and the buttons for them. */
export class Selection {
  /** @type {Set<number>} */
  ids = new Set();
  /** @type {Map<number, Run>} as they were shown last, also if they no longer match */
  #runs = new Map();
  #names = [];
  #tag = byId("add-tag");

  /** @param {() => void} onChange called when runs or their selection have changed */
  constructor(onChange) {
    this.onChange = onChange;
    byId("compare").addEventListener("click", () => location.assign(`/compare?runs=${this.#sorted().join(",")}`));
    byId("save-csv").addEventListener("click", () => this.#save());
    byId("stop").addEventListener("click", () => this.#each((id) => post(`/api/runs/${id}/stop/`), this.#active()));
    byId("delete").addEventListener("click", () => this.#delete());
    onSubmit(byId("tagging"), () => this.#addTag(this.#tag.value.trim()));
  }

  /** Show what can be done, now that these runs are listed with the columns of these names. */
  show(/** @type {Run[]} */ runs, /** @type {string[]} */ names) {
    this.#names = names;
    for (const run of runs) if (this.ids.has(run.id)) this.#runs.set(run.id, run);
    const { size } = this.ids;
    byId("compare").disabled = size < 2;
    setText(byId("selected"), size ? `${size} selected` : "");
    for (const id of ["clear", "tagging", "actions"]) byId(id).hidden = size === 0;
    byId("stop").hidden = this.#active().length === 0;
  }

  #sorted() {
    return [...this.ids].sort((a, b) => a - b);
  }

  #active() {
    return this.#sorted().filter((id) => this.#runs.has(id) && isActive(this.#runs.get(id)));
  }

  #save() {
    const runs = this.#sorted().map((id) => this.#runs.get(id)).filter(Boolean);
    const valueOf = (run, name) => (name === "outcome" ? run.outcome?.kind : run[name]);
    const cells = (run) => [...COLUMNS.map((name) => valueOf(run, name)), run.tags.join(" "), ...this.#names.map((name) => run.values[name])];
    const rows = [[...COLUMNS, "tags", ...this.#names], ...runs.map(cells)];
    saveCsv(rowsToCsv(rows), "runs.csv");
  }

  async #addTag(tag) {
    if (!tag) return;
    const isDone = await this.#each(async (id) => {
      await patch(`/api/runs/${id}/`, { add_tags: [tag] });
    });
    if (isDone) this.#tag.value = "";
  }

  async #delete() {
    const active = this.#active().length;
    const first = active ? `${plural(active, "active run")} ${active === 1 ? "is" : "are"} stopped first. ` : "";
    const text = `${first}The runs are deleted with their logs, archives and samples in the database. Their samples in Prometheus are deleted if Prometheus allows it; otherwise they expire.`;
    if (!(await confirm(`Delete ${plural(this.ids.size, "run")}?`, text, "Delete"))) return;
    await this.#each(async (id) => {
      await remove(`/api/runs/${id}/`);
      this.ids.delete(id);
    });
  }

  // Report a failure for one run, and continue with the others.
  async #each(/** @type {(id: number) => Promise<unknown>} */ act, ids = this.#sorted()) {
    const problems = [];
    for (const id of ids) {
      await act(id).catch((error) => problems.push(`run ${id}: ${error.message}`));
    }
    setNotice(byId("not-done"), problems.join("; "));
    this.onChange();
    return problems.length === 0;
  }
}
