// The box of a failure: its cause, rank and line, the last lines of its log, and the hang diagnosis.

import { get, post } from "../api.js";
import { byId, h, setNotice, setText } from "../dom.js";
import { count, spans } from "../format.js";
import { errorOf, isActive } from "../records.js";

/**
 * @import { Diagnosis as Record, Run, RunEvent, StackLine } from "../records.js"
 * @typedef {Pick<RunEvent, "time" | "attempt" | "rank" | "text"> & { kind: string }} Entry
 */

const FRAME = /File "([^"]+)", line (\d+)(?:, in (\S+))?/;
const LIBRARY = /site-packages|dist-packages|\/lib\/python/;
// PyTorch writes it before each line of a traceback.
const RANK_PREFIX = /^\[rank\d+\]: /;
const TAIL_LINES = 8;
// A fault takes effect on its rank within this time.
const FAULT_MS = 15_000;

/**
 * Describe why a run failed or hung.
 * @param {Run} run
 * @returns {{ title: string, where: string, lines: string[], rank: number | null } | null} null if it did not
 */
export function failureOf(run) {
  const kind = run.outcome?.kind;
  const isHung = kind === "hung";
  if (!isHung && run.state !== "FAILED") return null;
  const [first = "", ...rest] = run.reason.trim().split("\n");
  const lines = rest.map((line) => line.replace(RANK_PREFIX, "")).filter(Boolean).slice(-TAIL_LINES);
  const rank = run.outcome?.rank ?? (isHung ? null : rankIn(first));
  const step = run.outcome?.step;
  const title = isHung ? `Hung${step == null ? "" : ` at step ${count(step + 1)}`}` : rest.length ? errorOf(run) : first;
  const where = [isHung || rest.length ? first.replace(/:$/, "") : "", lineOf(rest)].filter(Boolean);
  return { title, where: where.join(" · "), lines, rank };
}

function rankIn(/** @type {string} */ text) {
  const match = /\brank (\d+)/.exec(text);
  return match ? Number(match[1]) : null;
}

/** @returns {string} the last line of one's own code in a traceback, such as `train.py:50 in main`. */
export function lineOf(/** @type {string[]} */ traceback) {
  const frames = traceback.map((line) => FRAME.exec(line)).filter(Boolean);
  const frame = frames.findLast(([, file]) => !LIBRARY.test(file)) ?? frames.at(-1);
  if (!frame) return "";
  const [, file, line, name] = frame;
  return `${file.split("/").at(-1)}:${line}${name ? ` in ${name}` : ""}`;
}

/** @returns {(event: RunEvent) => Entry} marks what planned faults caused, so that it is not taken for a failure. */
export function plannedIn(/** @type {RunEvent[]} */ events) {
  const faults = events.filter((event) => event.kind === "fault");
  return (event) => {
    if (event.kind !== "exited" && event.kind !== "lost") return event;
    const isCause = (fault) => fault.attempt === event.attempt && Date.parse(event.time) - Date.parse(fault.time) < FAULT_MS;
    return faults.some(isCause) ? { ...event, kind: "planned", text: `Planned: ${event.text}` } : event;
  };
}

/** The box of a failure or of a hang diagnosis, and the button "Diagnose". */
export class Failure {
  #button = byId("ask");
  #shown = "";
  /** @type {Run | null} */
  #run = null;
  /** @type {Record | null} */
  #diagnosis = null;
  #isPlanned = false;
  /** @type {string[] | null} the last lines of the rank's log, for a failure without a traceback */
  #tail = null;

  /**
   * @param {number} runId
   * @param {() => void} onAsk called when the ranks were asked
   */
  constructor(runId, onAsk) {
    this.path = `/api/runs/${runId}/diagnosis/`;
    this.logs = `/api/runs/${runId}/logs/`;
    this.onAsk = onAsk;
    this.#button.addEventListener("click", () => this.#ask());
  }

  /** Show why the run failed, and offer the diagnosis of a running run. */
  show(/** @type {Run} */ run) {
    this.#run = run;
    this.#button.hidden = run.state !== "STARTED" || !run.ranks.length;
    this.#draw();
  }

  /** Show the latest diagnosis, if the run's events have another one than is shown. */
  async setEvents(/** @type {RunEvent[]} */ events) {
    const ends = events.map(plannedIn(events)).filter(({ kind }) => ["planned", "exited", "lost"].includes(kind));
    this.#isPlanned = ends.findLast(({ attempt }) => attempt === this.#run.attempt)?.kind === "planned";
    await this.#fetchTail();
    this.#draw();
    const last = events.filter((event) => event.kind === "diagnosis").at(-1);
    if (!last || last.time + last.text === this.#shown) return;
    this.#diagnosis = await get(this.path, { evidence: false });
    this.#shown = last.time + last.text;
    byId("diagnosis-sentence").replaceChildren(...this.#sentence());
    byId("diagnosis-tree").replaceChildren(...this.#diagnosis.stacks.map(row));
    this.#draw();
  }

  async #fetchTail() {
    const failure = failureOf(this.#run);
    if (this.#tail || !failure || failure.lines.length || failure.rank === null) return;
    this.#tail = [];
    for (const stream of ["stderr", "stdout"]) {
      const { text } = await get(this.logs, { rank: failure.rank, stream, tail: TAIL_LINES });
      this.#tail = text.trim() ? text.trim().split("\n").slice(-TAIL_LINES) : [];
      if (this.#tail.length) return;
    }
  }

  #sentence() {
    return this.#diagnosis.done ? marked(this.#diagnosis.verdict.sentence) : ["Diagnosing…"];
  }

  #draw() {
    const failure = failureOf(this.#run);
    const { title, where, lines, rank } = failure ?? { title: "Hang diagnosis", where: "", lines: [], rank: null };
    const kind = this.#diagnosis?.done ? this.#diagnosis.verdict.kind : "";
    // The ranks of a run that ended well were only asked; the timeline has their diagnosis.
    byId("failure").hidden = !failure && !(this.#diagnosis && isActive(this.#run));
    byId("failure").classList.toggle("is-healthy", !failure && kind === "progressing");
    setText(byId("failure-title"), title);
    const planned = failure && this.#isPlanned ? `A planned fault (${this.#run.faults}); no restart was left` : "";
    setNotice(byId("failure-where"), [where, planned].filter(Boolean).join(" · "));
    setNotice(byId("failure-lines"), (lines.length ? lines : (this.#tail ?? [])).join("\n"));
    byId("diagnosis-sentence").hidden = !this.#diagnosis || kind === "exited";
    byId("diagnosis-stacks").hidden = !this.#diagnosis?.stacks.length;
    const log = byId("failure-log");
    log.hidden = !failure;
    setText(log, rank === null ? "Show logs ›" : `Show log of rank ${rank} ›`);
  }

  async #ask() {
    this.#button.disabled = true;
    setNotice(byId("problem"), "");
    try {
      await post(this.path);
      this.onAsk();
    } catch (error) {
      setNotice(byId("problem"), error.message);
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
