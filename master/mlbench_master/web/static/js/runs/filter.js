// The filter line: a query, whose terms are chips, and completion of the term that is being typed.

import { query } from "../api.js";
import { byId, getParam, h, reconcile } from "../dom.js";
import { STATES } from "../records.js";

/**
 * @typedef {{ name: string, help: string }} Field
 * @typedef {{ text: string, help: string }} Offer a completion of a term
 */

const OPERATORS = ["=", "!=", ">", ">=", "<", "<=", ":"];
const TERM = /(?:[A-Za-z_][\w@./-]*(?::|\s*(?:>=|<=|!=|=|>|<)\s*))?(?:"(?:[^"]|"")*"?|\S+)?/g;
const CONDITION = /^([A-Za-z_][\w@./-]*)\s*(>=|<=|!=|=|>|<|:)\s*(.*)$/s;
const MAX_OFFERS = 9;
const TYPING_MS = 150;
const OUTCOMES = ["reached", "not_reached", "nan", "hung", "crashed", "stopped", "completed"];

/** @returns {string[]} the terms of a query, all of which must match; `a OR b` is one. */
export function termsOf(/** @type {string} */ query) {
  // The expression matches an empty text before each space.
  const words = query.match(TERM).filter(Boolean).map((word) => word.trim().replace(CONDITION, "$1$2$3"));
  const terms = [];
  words.forEach((word, i) => {
    const isJoined = terms.length > 0 && (word === "OR" || ["OR", "NOT"].includes(words[i - 1]));
    terms.push(isJoined ? `${terms.pop()} ${word}` : word);
  });
  return terms;
}

/** @returns {boolean} whether a term can be sent as it stands. */
export function isComplete(/** @type {string} */ term) {
  return !/(^|\s)(OR|NOT)$|[=<>!:]\s*$/.test(term) && (term.match(/"/g) ?? []).length % 2 === 0;
}

/** @returns {Offer[]} completions of a term: names of fields, after a name its operators, then values. */
export function completions(/** @type {string} */ term, /** @type {Field[]} */ fields, valuesOf) {
  const [, before, word] = term.match(/^(.*(?:^|\s)(?:NOT |OR )?)(\S*)$/s) ?? [];
  const [, name, operator, begun] = word?.match(CONDITION) ?? [];
  if (name) {
    const values = valuesOf(name).filter((value) => value.toLowerCase().includes(begun.toLowerCase()) && value !== begun);
    return values.slice(0, MAX_OFFERS).map((value) => ({ text: `${before}${name}${operator}${quoted(value)}`, help: "" }));
  }
  const exact = fields.find((field) => field.name === word);
  const operators = exact ? OPERATORS.map((sign) => ({ text: `${before}${word}${sign}`, help: exact.help })) : [];
  const begins = word ? fields.filter((field) => field.name.startsWith(word) && field !== exact) : [];
  return [...operators, ...begins.map((field) => ({ text: before + field.name, help: field.help }))].slice(0, MAX_OFFERS);
}

/** @returns {string} a value as a query has it. */
export function quoted(/** @type {string} */ text) {
  return /^[^\s"]+$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`;
}

/** @returns {string} the address of the runs that match all of these terms. */
export function queryOf(/** @type {string[]} */ ...terms) {
  return `/runs${query({ query: terms.filter(Boolean).join(" ") })}`;
}

/** The filter line of the page. */
export class Filter {
  /** @type {Field[]} */
  fields = [];
  /** @type {Run[]} runs whose values are offered */
  runs = [];
  #terms = termsOf(getParam("query"));
  #input = byId("search");
  #list = byId("offers");
  #timer = 0;

  constructor(/** @type {() => void} */ onChange) {
    this.onChange = onChange;
    this.#input.addEventListener("input", () => this.#type());
    this.#input.addEventListener("focus", () => this.#offer());
    this.#input.addEventListener("blur", () => this.#offer([]));
    this.#input.addEventListener("keydown", (event) => this.#press(event));
    this.#list.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the focus stays in the box
      const option = /** @type {HTMLElement} */ (event.target).closest("li");
      if (option) this.#take(option);
    });
    this.#show();
  }

  /** @returns {string} all terms, with the one that is being typed once it is complete. */
  get query() {
    const typed = this.#input.value.trim();
    const isName = !this.#list.hidden && !CONDITION.test(typed); // that of a field, so far
    return [...this.#terms, ...(typed && isComplete(typed) && !isName ? [typed] : [])].join(" ");
  }

  #type() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.onChange, TYPING_MS);
    this.#offer();
  }

  #press(/** @type {KeyboardEvent} */ event) {
    const options = /** @type {HTMLElement[]} */ ([...this.#list.children]);
    const at = options.findIndex((option) => option.ariaSelected === "true");
    if (event.key === "Escape") return options.length ? this.#offer([]) : this.#input.blur();
    if (event.key === "ArrowDown") this.#choose(options[at + 1] ?? options[0]);
    else if (event.key === "ArrowUp") this.#choose(options.at(Math.max(at, 0) - 1));
    else if (event.key === "Enter" && at >= 0) this.#take(options[at]);
    else if (event.key === "Enter") this.#commit();
    else if (event.key === "Backspace" && !this.#input.value && this.#terms.length) this.#edit(this.#terms.length - 1);
    else return;
    event.preventDefault();
  }

  #take(/** @type {HTMLElement} */ { dataset: { key: text } }) {
    this.#input.value = text;
    if (CONDITION.test(text.split(" ").at(-1)) && isComplete(text)) this.#commit();
    else this.#type();
  }

  // Turn typed terms into chips.
  #commit() {
    const typed = this.#input.value.trim();
    if (typed && isComplete(typed)) this.#change([...this.#terms, ...termsOf(typed)], "");
  }

  #edit(/** @type {number} */ at) {
    this.#change(this.#terms.toSpliced(at, 1), this.#terms[at]);
  }

  #change(/** @type {string[]} */ terms, /** @type {string} */ text) {
    this.#terms = terms;
    this.#input.value = text;
    this.#input.focus();
    this.#show();
    this.#offer();
    this.onChange();
  }

  #show() {
    const button = (name, label, content, onclick) => h("button", { type: "button", class: name, "aria-label": label, onclick }, content);
    const create = ({ term, i }) => {
      const remove = () => this.#change(this.#terms.toSpliced(i, 1), this.#input.value);
      const edit = button("runs-term", `Edit ${term}`, h("bdi", {}, term), () => this.#edit(i));
      return h("li", {}, edit, button("runs-term-end", `Remove ${term}`, "×", remove));
    };
    reconcile(byId("terms"), this.#terms.map((term, i) => ({ term, i })), ({ term, i }) => `${i} ${term}`, create);
    this.#input.placeholder = this.#terms.length ? "" : "Filter: accuracy>95, exchange=topk, tag:paper, name …";
  }

  #offer(offers = completions(this.#input.value, this.fields, (name) => this.#valuesOf(name))) {
    const shown = document.activeElement === this.#input ? offers : [];
    reconcile(this.#list, shown, ({ text }) => text, ({ text, help }) =>
      h("li", { role: "option", id: `offer-${text}` }, h("span", {}, text), h("span", { class: "soft" }, help)),
    );
    this.#list.hidden = !shown.length;
    this.#input.setAttribute("aria-expanded", String(!this.#list.hidden));
    this.#choose(undefined);
  }

  #choose(/** @type {HTMLElement | undefined} */ chosen) {
    for (const option of this.#list.children) option.setAttribute("aria-selected", String(option === chosen));
    this.#input.setAttribute("aria-activedescendant", chosen?.id ?? "");
  }

  #valuesOf(/** @type {string} */ name) {
    const own = { state: STATES, outcome: OUTCOMES, division: ["closed", "open"] }[name];
    if (own) return own;
    const field = { tag: "tags", workers: "num_workers", set: "set_name", name: "title" }[name];
    const valueOf = (run) => (field ? run[field] : { ...run, ...run.values, ...run.swept, ...run.args, ...run.settings }[name]);
    const isText = (value) => value != null && value !== "" && typeof value !== "object";
    const values = new Set(this.runs.flatMap(valueOf).filter(isText).map(String));
    return [...values].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
  }
}
