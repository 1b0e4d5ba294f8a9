// Which runs are compared by which goal: two fields, chips of the runs, a list of recent ones.

import { h, keep, setText } from "../dom.js";
import { sample } from "./legend.js";
import { Picker } from "./picker.js";

/** The form of that. */
export class Choice {
  #ids = [];
  #names = new Map();

  /**
   * @param {{ form: HTMLFormElement, runs: HTMLInputElement, runsProblem: HTMLElement,
   *   goal: HTMLInputElement, goalProblem: HTMLElement, chips: HTMLElement, missing: HTMLElement,
   *   picker: ConstructorParameters<typeof Picker>[0] }} parts
   * @param {(part: { runs?: string, goal?: string }) => void} onChange
   */
  constructor(parts, onChange) {
    this.parts = parts;
    this.onChange = onChange;
    this.picker = new Picker(parts.picker, (id, isChosen) => this.#choose(id, isChosen));
    const { form, runs, goal } = parts;
    runs.addEventListener("change", () => onChange({ runs: runs.value.trim() }));
    goal.addEventListener("change", () => onChange({ goal: goal.value.trim() }));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Show what is asked for. */
  show(/** @type {import("./view.js").View} */ view, /** @type {number[]} */ ids) {
    this.#ids = ids;
    // What is being typed stays.
    const { runs, goal } = this.parts;
    if (document.activeElement !== runs) runs.value = view.runs;
    if (document.activeElement !== goal) goal.value = view.goal;
    this.picker.choose(ids);
    this.tellMissing([]);
    this.#fillChips();
  }

  /** Say what the runs are called. */
  name(/** @type {{ run_id: number, name: string }[]} */ results) {
    for (const { run_id, name } of results) this.#names.set(run_id, name);
    this.#fillChips();
  }

  /** Say what is wrong with each field, by its name. */
  tell(/** @type {Record<string, string>} */ problems) {
    const { runs, runsProblem, goal, goalProblem } = this.parts;
    tellOf(runs, runsProblem, problems.runs);
    tellOf(goal, goalProblem, problems.goal);
  }

  /** Say which runs are not there, with a button that leaves them out. */
  tellMissing(/** @type {number[]} */ ids) {
    const isOne = ids.length === 1;
    const text = isOne
      ? `There is no run ${ids[0]}: it may have been deleted.`
      : `There are no runs ${ids.join(", ")}: they may have been deleted.`;
    const leave = () => this.#set(this.#ids.filter((id) => !ids.includes(id)));
    const out = isOne ? "Leave it out" : "Leave them out";
    const make = () => h("p", {}, text, h("button", { type: "button", onclick: leave }, out));
    this.parts.missing.hidden = ids.length === 0;
    keep(
      this.parts.missing,
      ids.length ? [text] : [],
      () => text,
      make,
      () => {},
    );
  }

  /** Show the list of recent runs. */
  open() {
    this.picker.open();
  }

  #choose(id, isChosen) {
    this.#set(isChosen ? [...this.#ids, id] : this.#ids.filter((one) => one !== id));
  }

  #set(ids) {
    this.parts.runs.value = ids.join(",");
    this.onChange({ runs: this.parts.runs.value });
  }

  #fillChips() {
    const entries = this.#ids.map((id, i) => ({ id, i }));
    const keyOf = ({ id, i }) => `${id} ${i}`;
    keep(
      this.parts.chips,
      entries,
      keyOf,
      (entry) => this.#makeChip(entry),
      (chip, { id }) => {
        const name = this.#names.get(id);
        setText(chip.querySelector("a"), name === undefined ? `Run ${id}` : `${id} · ${name}`);
      },
    );
  }

  #makeChip({ id, i }) {
    const leave = () => this.#set(this.#ids.filter((one) => one !== id));
    const label = `Leave out run ${id}`;
    const props = {
      type: "button",
      class: "quiet",
      "aria-label": label,
      title: label,
      onclick: leave,
    };
    const link = h("a", { href: `/runs/${id}` });
    return h("li", { class: "chip" }, sample(i), link, h("button", props, "×"));
  }
}

function tellOf(field, place, problem = "") {
  setText(place, problem);
  field.setAttribute("aria-invalid", String(problem !== ""));
}
