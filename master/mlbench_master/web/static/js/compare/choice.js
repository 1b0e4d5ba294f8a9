// The compared runs: the page's address, the fields for runs and target, and the list of recent runs.

import { get, now } from "../api.js";
import { sample } from "../chart.js";
import { byId, h, onSubmit, reconcile, setText } from "../dom.js";
import { ago, plural } from "../format.js";
import { styleOfRun } from "../plot.js";
import { labelOf, sweptOf } from "../records.js";
import { runBadge } from "../ui.js";
import { AXES } from "./curves.js";

/** @import { Run } from "../records.js" */

const MAX_RECENT = 100;

/**
 * What the page shows. `runs` is as it was typed; an empty `target` is each run's own, no `metrics`
 * are that of the target, and an empty `axis` is the first that was recorded. Curves are of runs, or
 * of groups of them.
 * @typedef {{ runs: string, target: string, metrics: string[], axis: string, ofGroups: boolean }} View
 */

/** @returns {View} the view that an address describes. */
export function toView(/** @type {URLSearchParams} */ params) {
  const axis = params.get("axis");
  return {
    runs: params.get("runs") ?? "",
    target: params.get("target") ?? "",
    metrics: params.getAll("metric").filter(Boolean),
    axis: AXES.includes(axis) ? axis : "",
    ofGroups: params.get("curves") === "groups",
  };
}

/** @returns {Record<string, string | string[]>} the parameters of a view's address. */
export function toParams(/** @type {View} */ view) {
  return {
    runs: parseRuns(view.runs).ids.join(",") || view.runs,
    target: view.target,
    metric: view.metrics,
    axis: view.axis,
    curves: view.ofGroups ? "groups" : "",
  };
}

/** @returns {{ ids: number[], wrong: string }} the distinct ids in a text, and its other words. */
export function parseRuns(/** @type {string} */ text) {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const isId = (word) => /^[1-9]\d{0,14}$/.test(word);
  return {
    ids: [...new Set(words.filter(isId).map(Number))],
    wrong: words.filter((word) => !isId(word)).join(", "),
  };
}

/** The form: two fields, a chip for each run, and the list of recent runs. */
export class Choice {
  #ids = [];
  #labels = new Map();
  #runs = byId("runs");
  #target = byId("target");

  /** @param {(part: { runs?: string, target?: string }) => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.recent = new Recent((id, isChosen) => this.#choose(id, isChosen));
    this.#runs.addEventListener("change", () => onChange({ runs: this.#runs.value.trim() }));
    this.#target.addEventListener("change", () => onChange({ target: this.#target.value.trim() }));
    onSubmit(byId("choice"), () => {});
  }

  show(/** @type {View} */ view, /** @type {number[]} */ ids) {
    this.#ids = ids;
    // Keep the text that the user is typing.
    if (document.activeElement !== this.#runs) this.#runs.value = view.runs;
    if (document.activeElement !== this.#target) this.#target.value = view.target;
    this.recent.choose(ids);
    this.showMissing([]);
    this.#fillChips();
  }

  setNames(/** @type {import("../records.js").Result[]} */ results) {
    for (const result of results) this.#labels.set(result.run_id, labelOf(result));
    this.#fillChips();
  }

  /** Show the problems of the fields beside them. */
  showProblems(/** @type {Record<string, string>} */ problems) {
    for (const field of [this.#runs, this.#target]) {
      const problem = problems[field.id] ?? "";
      setText(byId(`${field.id}-problem`), problem);
      field.setAttribute("aria-invalid", String(problem !== ""));
    }
  }

  /** Show which runs do not exist, with a button that leaves them out. */
  showMissing(/** @type {number[]} */ ids) {
    const isOne = ids.length === 1;
    const text = isOne
      ? `Run ${ids[0]} not found. It may have been deleted.`
      : `Runs ${ids.join(", ")} not found. They may have been deleted.`;
    const leave = () => this.#set(this.#ids.filter((id) => !ids.includes(id)));
    const label = isOne ? "Remove it" : "Remove them";
    byId("missing").hidden = ids.length === 0;
    reconcile(byId("missing"), ids.length ? [text] : [], String, () =>
      h("p", {}, text, h("button", { type: "button", onclick: leave }, label)),
    );
  }

  #choose(id, isChosen) {
    this.#set(isChosen ? [...this.#ids, id] : this.#ids.filter((other) => other !== id));
  }

  #set(ids) {
    this.#runs.value = ids.join(",");
    this.onChange({ runs: this.#runs.value });
  }

  #fillChips() {
    const entries = this.#ids.map((id, i) => ({ id, i }));
    const keyOf = ({ id, i }) => `${id} ${i}`;
    reconcile(byId("chips"), entries, keyOf, (entry) => this.#makeChip(entry), (chip, { id }) => {
      setText(chip.querySelector("a"), this.#labels.get(id) ?? `Run ${id}`);
    });
  }

  #makeChip({ id }) {
    const onclick = () => this.#choose(id, false);
    const title = `Remove run ${id}`;
    const props = { type: "button", class: "quiet", "aria-label": title, title, onclick };
    const link = h("a", { href: `/runs/${id}` });
    return h("li", { class: "chip" }, sample(styleOfRun(id, this.#ids)), link, h("button", props, "×"));
  }
}

/** The list of recent runs with checkboxes, fetched when it is opened. */
class Recent {
  /** @type {Run[]} */
  #runs = [];
  #chosen = new Set();
  #folded = byId("recent");
  #search = byId("recent-search");
  #note = byId("recent-note");

  /** @param {(id: number, isChosen: boolean) => void} onChoice */
  constructor(onChoice) {
    this.onChoice = onChoice;
    this.#search.addEventListener("input", () => this.#fetch());
    this.#folded.addEventListener("toggle", () => this.#folded.open && this.#fetch());
  }

  open() {
    this.#folded.open = true;
  }

  choose(/** @type {number[]} */ ids) {
    this.#chosen = new Set(ids);
    this.#fill();
  }

  async #fetch() {
    const q = this.#search.value.trim();
    try {
      const runs = await get("/api/runs/", { limit: MAX_RECENT, query: q || null });
      if (q !== this.#search.value.trim()) return; // the answer to a later search counts
      this.#runs = runs.toReversed();
      this.#fill();
      setText(this.#note, noteOn(runs.length, q));
    } catch (error) {
      setText(this.#note, error.message);
    }
  }

  #fill() {
    const keyOf = (run) => run.id;
    reconcile(byId("recent-runs"), this.#runs, keyOf, (run) => this.#make(run), (item, run) => {
      item.querySelector("input").checked = this.#chosen.has(run.id);
    });
  }

  #make(/** @type {Run} */ run) {
    const box = h("input", { type: "checkbox" });
    box.addEventListener("change", () => this.onChoice(run.id, box.checked));
    const workers = plural(run.num_workers, "worker");
    const about = [run.benchmark || "own code", workers, sweptOf(run), ago(run.created_at, now())];
    const name = h("span", { class: "picker-name" }, `${run.id} · ${run.title}`);
    const detail = h("span", { class: "soft small-text" }, about.filter(Boolean).join(", "));
    return h("li", {}, h("label", { class: "check" }, box, name, runBadge(run), detail));
  }
}

function noteOn(count, search) {
  if (!count) return search ? "No matching runs." : "No runs yet. Start one on the Runs page.";
  return count < MAX_RECENT ? "" : `The newest ${count} runs. Search for others.`;
}
