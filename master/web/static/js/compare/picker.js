// The list of recent runs, from which runs are added to the comparison or taken out.

import { get, now } from "../api.js";
import { h, keep, setText } from "../dom.js";
import { ago, count } from "../format.js";
import { badge } from "../pieces.js";

const MOST_SHOWN = 100;

/** A list of runs with checkboxes, fetched when it is opened. */
export class Picker {
  #runs = [];
  #chosen = new Set();

  /**
   * @param {{ folded: HTMLDetailsElement, search: HTMLInputElement, list: HTMLElement,
   *   note: HTMLElement }} parts
   * @param {(id: number, isChosen: boolean) => void} onChoice
   */
  constructor(parts, onChoice) {
    this.parts = parts;
    this.onChoice = onChoice;
    parts.search.addEventListener("input", () => this.#fill());
    parts.folded.addEventListener("toggle", () => parts.folded.open && this.#fetch());
  }

  /** Show the list. */
  open() {
    this.parts.folded.open = true;
  }

  /** Say which runs are compared. */
  choose(/** @type {number[]} */ ids) {
    this.#chosen = new Set(ids);
    this.#fill();
  }

  async #fetch() {
    setText(this.parts.note, "Loading…");
    try {
      this.#runs = (await get("/api/runs/")).reverse();
      this.#fill();
    } catch (error) {
      setText(this.parts.note, error.message);
    }
  }

  #fill() {
    if (!this.parts.folded.open) return;
    const found = this.#runs.filter((run) => isWanted(run, this.parts.search.value));
    const shown = found.slice(0, MOST_SHOWN);
    keep(
      this.parts.list,
      shown,
      (run) => run.id,
      (run) => this.#make(run),
      (item, run) => {
        item.querySelector("input").checked = this.#chosen.has(run.id);
      },
    );
    setText(this.parts.note, noteOn(this.#runs.length, found.length, shown.length));
  }

  #make(run) {
    const box = h("input", { type: "checkbox" });
    box.addEventListener("change", () => this.onChoice(run.id, box.checked));
    const workers = `${run.num_workers} ${run.num_workers === 1 ? "worker" : "workers"}`;
    const about = `${run.benchmark || "own code"}, ${workers}, ${ago(run.created_at, now())}`;
    return h(
      "li",
      {},
      h(
        "label",
        { class: "check" },
        box,
        h("span", { class: "picker-name" }, `${run.id} · ${run.name}`),
        badge(run.state),
        h("span", { class: "soft small-text" }, about),
      ),
    );
  }
}

/** @returns {boolean} whether all words of a search are in what is shown of a run. */
export function isWanted(/** @type {object} */ run, /** @type {string} */ search) {
  const shown = [run.id, run.name, run.benchmark, run.state, run.num_workers, "workers"];
  const text = shown.join(" ").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function noteOn(all, found, shown) {
  if (!all) return "There are no runs yet: start one on the Runs page.";
  if (!found) return "No run matches.";
  return shown < found ? `The newest ${shown} of ${count(found)}; search for others.` : "";
}
