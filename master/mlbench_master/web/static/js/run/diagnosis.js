// The section "Hang diagnosis": the verdict, the stacks of all ranks, and the button "Diagnose".

import { get, post } from "../api.js";
import { byId, h, setNotice, setText } from "../dom.js";
import { spans } from "../format.js";
import { isActive } from "../records.js";

/** @import { Diagnosis as Record, Run, RunEvent, StackLine } from "../records.js" */

/** The box above the sections of a run, and the button "Diagnose". */
export class Diagnosis {
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
    this.path = `/api/runs/${runId}/diagnosis/`;
    this.onAsk = onAsk;
    this.#button.addEventListener("click", () => this.#ask());
  }

  /** Offer the diagnosis of a running run; mark the section only if the run hung. */
  show(/** @type {Run} */ run) {
    this.#button.hidden = run.state !== "STARTED" || !run.ranks.length;
    this.#isActive = isActive(run);
    this.#hasHung = run.outcome?.kind === "hung" || run.state === "FAILED";
    this.#markVerdict();
  }

  /** Show the latest diagnosis, if the run's events have another one than is shown. */
  async setEvents(/** @type {RunEvent[]} */ events) {
    const last = events.filter((event) => event.kind === "diagnosis").at(-1);
    if (!last || last.time + last.text === this.#shown) return;
    this.#fill(await get(this.path, { evidence: false }));
    this.#shown = last.time + last.text;
  }

  #fill(/** @type {Record} */ { done, verdict, stacks }) {
    byId("diagnosis").hidden = false;
    this.#isOn = done && verdict.kind === "progressing";
    this.#markVerdict();
    const sentence = done ? marked(verdict.sentence) : ["Diagnosing…"];
    byId("diagnosis-sentence").replaceChildren(...sentence);
    byId("diagnosis-stacks").hidden = !stacks.length;
    byId("diagnosis-tree").replaceChildren(...stacks.map(row));
  }

  #markVerdict() {
    byId("diagnosis").classList.toggle("going", this.#isActive ? this.#isOn : !this.#hasHung);
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

/** @returns {string} the ranks in a frame where stacks diverge; empty in a common frame. */
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
