// The options of a benchmark, in rows of a name and a value each.

import { byId, h, setText } from "../dom.js";

// What a task states of its data is held against the rules, but is none of its options.
const NO_OPTION = /_sha256$|_images$|^classes$/;

/** The rows of options. `onChange` is called whenever one is added or removed. */
export class Options {
  #rows = byId("options-rows");
  #keys = byId("option-keys");
  #known = {};
  #count = 0;

  constructor(/** @type {() => void} */ onChange) {
    this.onChange = onChange;
    byId("add-option").addEventListener("click", () => {
      this.#add().querySelector("input").focus();
      onChange();
    });
  }

  /** Propose the settings that a benchmark's rules name, and their usual values. */
  setKnown(/** @type {Record<string, unknown[]>} */ rules) {
    this.#known = Object.fromEntries(
      Object.entries(rules).filter(([key, [usual]]) => !NO_OPTION.test(key) && usual !== null),
    );
    this.#keys.replaceChildren(...Object.keys(this.#known).map((value) => h("option", { value })));
    for (const row of this.#rows.children) this.#propose(row);
  }

  /** @returns {{ key: string, value: string }[]} what the rows say. */
  read() {
    return [...this.#rows.children].map((row) => {
      const [key, value] = row.querySelectorAll("input");
      return { key: key.value.trim(), value: value.value };
    });
  }

  /** Say beside each row what is wrong with it, by `args.KEY`. */
  showProblems(/** @type {Record<string, string>} */ problems) {
    for (const row of this.#rows.children) {
      const inputs = row.querySelectorAll("input");
      const [key, value] = [...inputs].map((input) => input.value.trim());
      const problem = key || value ? (problems[`args.${key}`] ?? "") : "";
      setText(row.querySelector(".problem"), problem);
      for (const input of inputs) input.setAttribute("aria-invalid", String(problem !== ""));
    }
  }

  #add() {
    const id = `option-problem-${++this.#count}`;
    const described = { "aria-describedby": id, autocomplete: "off", spellcheck: "false" };
    const key = h("input", { ...described, "aria-label": "Option", list: "option-keys" });
    const values = h("datalist", { id: `option-values-${this.#count}` });
    const value = h("input", { ...described, "aria-label": "Value", list: values.id });
    const gone = h("button", { type: "button", class: "quiet", "aria-label": "Remove option" });
    gone.append("Remove");
    const sign = h("span", { "aria-hidden": "true" }, "=");
    const row = h(
      "div",
      { class: "option" },
      h("div", { class: "option-inputs" }, key, sign, value, gone, values),
      h("p", { class: "problem", id }),
    );
    gone.addEventListener("click", () => {
      row.remove();
      byId("add-option").focus();
      this.onChange();
    });
    key.addEventListener("input", () => this.#propose(row));
    this.#rows.append(row);
    return row;
  }

  #propose(row) {
    const key = row.querySelector("input").value.trim();
    const values = Object.hasOwn(this.#known, key) ? this.#known[key] : [];
    row.querySelector("datalist").replaceChildren(...values.map((value) => h("option", { value })));
  }
}
