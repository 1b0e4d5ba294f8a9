// The filter line: a query, whose terms are chips, and completion of the term that is being typed.

import { query } from "../api.js";
import { byId, getParam, h, reconcile } from "../dom.js";
import { STATES } from "../records.js";

/** @import { Run, Schemas } from "../records.js" */

/** @typedef {{ text: string, help: string }} Offer what a term may become */

const OPERATORS = ["=", "!=", ">", ">=", "<", "<=", ":"];
const TERM = /(?:[A-Za-z_][\w@./-]*(?::|\s*(?:>=|<=|!=|=|>|<)\s*))?(?:"(?:[^"]|"")*"?|\S+)?/y;
const CONDITION = /^([A-Za-z_][\w@./-]*)\s*(>=|<=|!=|=|>|<|:)\s*(.*)$/s;
const MOST_OFFERS = 9;
const TYPING_MS = 150;
const OUTCOMES = ["reached", "not_reached", "nan", "hung", "crashed", "stopped", "completed"];

/** @returns {string[]} the terms of a query, all of which must match; `a OR b` is one. */
export function termsOf(/** @type {string} */ query) {
  const terms = [];
  let before = "";
  for (TERM.lastIndex = 0; TERM.lastIndex < query.length; ) {
    if (query[TERM.lastIndex].trim() === "") {
      TERM.lastIndex += 1;
      continue;
    }
    const [word] = TERM.exec(query);
    if (word === "NOT") before += "NOT ";
    else if (word === "OR" && terms.length) before = `${terms.pop()} OR `;
    else {
      terms.push(before + word.trim().replace(CONDITION, "$1$2$3"));
      before = "";
    }
  }
  return before ? [...terms, before.trim()] : terms;
}

/** @returns {boolean} whether a term can be sent as it stands. */
export function isComplete(/** @type {string} */ term) {
  return !/(^|\s)(OR|NOT)$|[=<>!:]\s*$/.test(term) && (term.match(/"/g) ?? []).length % 2 === 0;
}

/**
 * What the end of a term may become: names of fields, after a name its operators, then values.
 * @param {string} term
 * @param {{ name: string, help: string }[]} fields
 * @param {(field: string) => string[]} valuesOf a field in the runs that are shown
 * @returns {Offer[]}
 */
export function completions(term, fields, valuesOf) {
  const [, before, word] = term.match(/^(.*(?:^|\s)(?:NOT |OR )?)(\S*)$/s) ?? [];
  const [, name, operator, begun] = word?.match(CONDITION) ?? [];
  if (name) {
    const values = valuesOf(name).filter((value) => value.toLowerCase().includes(begun.toLowerCase()) && value !== begun);
    return values.slice(0, MOST_OFFERS).map((value) => ({ text: `${before}${name}${operator}${quoted(value)}`, help: "" }));
  }
  const exact = fields.find((field) => field.name === word);
  const operators = exact ? OPERATORS.map((sign) => ({ text: `${before}${word}${sign}`, help: exact.help })) : [];
  const begins = word ? fields.filter((field) => field.name.startsWith(word) && field !== exact) : [];
  return [...operators, ...begins.map((field) => ({ text: before + field.name, help: field.help }))].slice(0, MOST_OFFERS);
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
  /** @type {Schemas["RunField"][]} */
  fields = [];
  /** @type {Run[]} runs whose values are offered */
  runs = [];
  #terms = [];
  #input = byId("search");
  #list = byId("offers");
  /** @type {Offer[]} */
  #offers = [];
  #at = -1;
  #timer = 0;

  constructor(/** @type {() => void} */ onChange) {
    this.onChange = onChange;
    const state = getParam("state"); // a filter of its own in earlier versions
    const given = getParam("query") || getParam("search");
    this.#terms = [...termsOf(given), ...(STATES.includes(state) ? [`state=${state}`] : [])];
    this.#input.addEventListener("input", () => this.#type());
    this.#input.addEventListener("focus", () => this.#offer());
    this.#input.addEventListener("blur", () => this.#close());
    this.#input.addEventListener("keydown", (event) => this.#press(event));
    this.#list.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the focus stays in the box
      const option = /** @type {HTMLElement} */ (event.target).closest("li");
      if (option) this.#take(this.#offers[[...this.#list.children].indexOf(option)]);
    });
    this.#show();
  }

  /** @returns {string} all terms, with the one that is being typed once it is complete. */
  get query() {
    const typed = this.#input.value.trim();
    const isName = this.#offers.length > 0 && !CONDITION.test(typed); // that of a field, so far
    return [...this.#terms, ...(typed && isComplete(typed) && !isName ? [typed] : [])].join(" ");
  }

  focus() {
    this.#input.focus();
  }

  #type() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.onChange, TYPING_MS);
    this.#offer();
  }

  #press(event) {
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      const { length } = this.#offers;
      this.#choose(length ? (this.#at + (key === "ArrowDown" ? 1 : length + (this.#at < 0 ? 0 : -1))) % length : -1);
    } else if (key === "Enter") {
      event.preventDefault();
      if (this.#at >= 0) this.#take(this.#offers[this.#at]);
      else this.#commit();
    } else if (key === "Escape" && !this.#list.hidden) {
      this.#close();
    } else if (key === "Escape") {
      this.#input.blur();
    } else if (key === "Backspace" && !this.#input.value && this.#terms.length) {
      event.preventDefault();
      this.#edit(this.#terms.length - 1);
    }
  }

  #take(offer) {
    this.#input.value = offer.text;
    if (isComplete(offer.text) && CONDITION.test(offer.text.split(" ").at(-1))) this.#commit();
    else this.#type();
  }

  // Make chips of what has been typed.
  #commit() {
    const typed = this.#input.value.trim();
    if (!typed || !isComplete(typed)) return;
    this.#terms = [...this.#terms, ...termsOf(typed)];
    this.#input.value = "";
    this.#change();
  }

  #edit(at) {
    this.#input.value = this.#terms[at];
    this.#remove(at);
  }

  #remove(at) {
    this.#terms = this.#terms.toSpliced(at, 1);
    this.focus();
    this.#change();
  }

  #change() {
    this.#show();
    this.#offer();
    this.onChange();
  }

  #show() {
    reconcile(byId("terms"), this.#terms.map((term, i) => ({ term, i })), ({ term, i }) => `${i} ${term}`, ({ term, i }) =>
      h(
        "li",
        {},
        h("button", { type: "button", class: "runs-term", "aria-label": `Edit ${term}`, onclick: () => this.#edit(i) }, h("bdi", {}, term)),
        h("button", { type: "button", class: "runs-term-end", "aria-label": `Remove ${term}`, onclick: () => this.#remove(i) }, "×"),
      ),
    );
    this.#input.placeholder = this.#terms.length ? "" : "Filter: accuracy>95, exchange=topk, tag:paper, name …";
  }

  #offer() {
    this.#offers = document.activeElement === this.#input ? completions(this.#input.value, this.fields, (name) => this.#valuesOf(name)) : [];
    reconcile(this.#list, this.#offers, ({ text }) => text, ({ text, help }) =>
      h("li", { role: "option", id: `offer-${text}` }, h("span", {}, text), h("span", { class: "soft" }, help)),
    );
    this.#choose(-1);
  }

  #choose(at) {
    this.#at = at;
    this.#list.hidden = !this.#offers.length;
    this.#input.setAttribute("aria-expanded", String(!this.#list.hidden));
    [...this.#list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
    const chosen = this.#list.children[at];
    if (chosen) this.#input.setAttribute("aria-activedescendant", chosen.id);
    else this.#input.removeAttribute("aria-activedescendant");
  }

  #close() {
    this.#offers = [];
    this.#choose(-1);
  }

  #valuesOf(name) {
    const own = { state: STATES, outcome: OUTCOMES, division: ["closed", "open"] };
    if (own[name]) return own[name];
    const OF_RUN = { tag: (run) => run.tags, workers: (run) => run.num_workers, set: (run) => run.set_name, name: (run) => run.title };
    const valueOf = OF_RUN[name] ?? ((run) => run.settings?.[name] ?? run.args[name] ?? run.swept[name] ?? run.values[name] ?? run[name]);
    const values = this.runs.flatMap(valueOf).filter((value) => value != null && value !== "" && typeof value !== "object");
    return [...new Set(values.map(String))].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
  }
}
