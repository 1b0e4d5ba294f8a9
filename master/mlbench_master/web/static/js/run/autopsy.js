// Why the run does not go on: the verdict, where all ranks are, and the button that asks them.

import { get, post } from "../api.js";
import { byId, h, setNotice, setText } from "../dom.js";
import { spans } from "../format.js";
import { isActive } from "../records.js";

/** @import { Autopsy as Record, Run, RunEvent, StackLine } from "../records.js" */

/** The box above the sections of a run, and the button "Why does it hang?". */
export class Autopsy {
  #button = byId("ask");
  #shown = "";
  #isOn = false;
  #isActive = true;
  #hasHung = false;

  /**
   * @param {number} runId
   * @param {() => void} onAsk called when the ranks were asked
   */
  constructor(runId, onAsk) {
    this.path = `/api/runs/${runId}/autopsy/`;
    this.onAsk = onAsk;
    this.#button.addEventListener("click", () => this.#ask());
  }

  /** Offer to ask the ranks of a run that is running; of one that did not hang, warn no more. */
  show(/** @type {Run} */ run) {
    this.#button.hidden = run.state !== "STARTED" || !run.ranks.length;
    this.#isActive = isActive(run);
    this.#hasHung = run.outcome?.kind === "hung" || run.state === "FAILED";
    this.#entitle();
  }

  /** Show the latest autopsy, if the run's events have another one than is shown. */
  async setEvents(/** @type {RunEvent[]} */ events) {
    const last = events.filter((event) => event.kind === "autopsy").at(-1);
    if (!last || last.time + last.text === this.#shown) return;
    this.#fill(await get(this.path, { evidence: false }));
    this.#shown = last.time + last.text;
  }

  #fill(/** @type {Record} */ { done, verdict, stacks }) {
    byId("autopsy").hidden = false;
    this.#isOn = done && verdict.kind === "going";
    this.#entitle();
    const sentence = done ? marked(verdict.sentence) : ["Its ranks are asked…"];
    byId("autopsy-sentence").replaceChildren(...sentence);
    byId("autopsy-stacks").hidden = !stacks.length;
    byId("autopsy-tree").replaceChildren(...stacks.map(row));
  }

  #entitle() {
    const whileActive = this.#isOn ? "It goes on" : "Why it does not go on";
    const atTheEnd = this.#hasHung ? "Why it did not go on" : "Hang diagnosis";
    setText(byId("autopsy-title"), this.#isActive ? whileActive : atTheEnd);
    byId("autopsy").classList.toggle("going", this.#isActive ? this.#isOn : !this.#hasHung);
  }

  async #ask() {
    this.#button.disabled = true;
    setNotice(byId("problem"), "");
    try {
      await post(this.path);
      this.onAsk();
    } catch (error) {
      setText(byId("problem"), error.message);
    } finally {
      this.#button.disabled = false;
    }
  }
}

/** @returns {(string | Node)[]} a text whose parts between backticks are code. */
export function marked(/** @type {string} */ text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** @returns {string} who is in a frame, where ranks part; empty where they go on together. */
export function whose(/** @type {StackLine} */ { depth, here, elsewhere }) {
  if (depth && !elsewhere.length) return "";
  const of = (ranks) => `${ranks.length === 1 ? "rank" : "ranks"} ${spans(ranks)}`;
  return elsewhere.length ? `${of(here)}, not ${of(elsewhere)}` : of(here);
}

function row(/** @type {StackLine} */ line) {
  const { function: name, file, line: number } = line.frame;
  const place = h("span", { class: "soft", title: file }, ` ${file.split("/").at(-1)}:${number} `);
  const ranks = whose(line);
  const item = h("li", {}, h("code", {}, name), place, ranks && h("strong", {}, ranks));
  item.style.paddingInlineStart = `${line.depth}em`;
  return item;
}
