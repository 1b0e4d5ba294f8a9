// The events of a run: the box of a failure, with the hang diagnosis, and the section "Timeline".

import { get } from "../api.js";
import { byId, draw, h, setNotice, setText } from "../dom.js";
import { count, duration, moment } from "../format.js";
import { errorOf, isActive } from "../records.js";
import { alertTitle } from "./findings.js";
import { namesOf } from "./ranks.js";

const FRAME = /File "([^"]+)", line (\d+)(?:, in (\S+))?/;
const LIBRARY = /site-packages|dist-packages|\/lib\/python/;
// PyTorch writes it before each line of a traceback.
const RANK_PREFIX = /^\[rank\d+\]: /;
const TAIL_LINES = 8;

/** Describe why a run failed or hung; null if it did not. */
export function failureOf(/** @type {Run} */ { outcome, state, reason }) {
  const isHung = outcome?.kind === "hung";
  if (!isHung && state !== "FAILED") return null;
  const [first = "", ...rest] = reason.trim().split("\n");
  const lines = rest.map((line) => line.replace(RANK_PREFIX, "")).filter(Boolean).slice(-TAIL_LINES);
  const [, number = null] = /\brank (\d+)/.exec(isHung ? "" : first) ?? [];
  const rank = outcome?.rank ?? (number && Number(number));
  const title = rest.length ? errorOf({ reason }) : first;
  const hung = outcome?.step == null ? "Hung" : `Hung at step ${count(outcome.step + 1)}`;
  const where = [isHung || rest.length ? first.replace(/:$/, "") : "", lineOf(rest)].filter(Boolean);
  return { title: isHung ? hung : title, where: where.join(" · "), lines, rank };
}

/** @returns {string} the last line of the user's code in a traceback, such as `train.py:50 in main`. */
function lineOf(/** @type {string[]} */ traceback) {
  const frames = traceback.map((line) => FRAME.exec(line)).filter(Boolean);
  const frame = frames.findLast(([, file]) => !LIBRARY.test(file)) ?? frames.at(-1);
  if (!frame) return "";
  const [, file, line, name] = frame;
  return `${file.split("/").at(-1)}:${line}${name ? ` in ${name}` : ""}`;
}

/** @type {Diagnosis | null} */
let diagnosis = null;
let shownDiagnosis = "";
let isPlanned = false;
/** @type {string[] | null} the last lines of the rank's log, for a failure without a traceback */
let tail = null;

/** Fetch the failure in a run's events and its latest diagnosis; then show the box. */
export async function refreshFailure(/** @type {Run} */ run, /** @type {RunEvent[]} */ events) {
  const isEnd = ({ kind, attempt }) => attempt === run.attempt && ["planned", "exited", "lost"].includes(kind);
  isPlanned = events.findLast(isEnd)?.kind === "planned";
  const failure = failureOf(run);
  if (failure && !failure.lines.length && failure.rank !== null) tail ??= await fetchTail(run.id, failure.rank);
  const last = events.findLast((event) => event.kind === "diagnosis");
  if (last && last.time + last.text !== shownDiagnosis) {
    diagnosis = await get(`/api/runs/${run.id}/diagnosis/`, { evidence: false });
    shownDiagnosis = last.time + last.text;
    const { done, stacks, verdict } = diagnosis;
    byId("diagnosis-sentence").replaceChildren(...(done ? marked(verdict.sentence) : ["Diagnosing…"]));
    byId("diagnosis-tree").replaceChildren(...stacks.map(createFrame));
  }
  showFailure(run);
}

async function fetchTail(/** @type {number} */ runId, /** @type {number} */ rank) {
  for (const stream of ["stderr", "stdout"]) {
    const { text } = await get(`/api/runs/${runId}/logs/`, { rank, stream, tail: TAIL_LINES });
    if (text.trim()) return text.trim().split("\n").slice(-TAIL_LINES);
  }
  return [];
}

/** Show the box of a failure, or of the hang diagnosis of an active run. */
export function showFailure(/** @type {Run} */ run) {
  const failure = failureOf(run);
  const { title, where, lines, rank } = failure ?? { title: "Hang diagnosis", where: "", lines: [], rank: null };
  const kind = diagnosis?.done ? diagnosis.verdict.kind : "";
  // A run that ended well shows its diagnosis only in the timeline.
  byId("failure").hidden = !failure && !(diagnosis && isActive(run));
  byId("failure").classList.toggle("is-healthy", !failure && kind === "progressing");
  setText(byId("failure-title"), title);
  const planned = failure && isPlanned ? `A planned fault (${run.faults}); no restart was left` : "";
  setNotice(byId("failure-where"), [where, planned].filter(Boolean).join(" · "));
  const text = (lines.length ? lines : (tail ?? [])).join("\n");
  setNotice(byId("failure-lines"), text === title ? "" : text);
  byId("diagnosis-sentence").hidden = !diagnosis || kind === "exited";
  byId("diagnosis-stacks").hidden = !diagnosis?.stacks.length;
  setNotice(byId("failure-log"), failure ? (rank === null ? "Show logs ›" : `Show log of rank ${rank} ›`) : "");
}

/** @returns {(string | Node)[]} a text whose parts between backticks are code. */
function marked(/** @type {string} */ text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** @returns {string} the ranks in a frame where stacks diverge; empty in a common frame. */
export function whose(/** @type {StackLine} */ { depth, here, elsewhere }) {
  if (elsewhere.length) return `${namesOf(here)}, not ${namesOf(elsewhere)}`;
  return depth ? "" : namesOf(here);
}

function createFrame(/** @type {StackLine} */ line) {
  const { function: name, file, line: number } = line.frame;
  const place = h("span", { class: "soft", title: file }, ` ${file.split("/").at(-1)}:${number} `);
  const ranks = whose(line);
  return h("li", { style: { "padding-inline-start": `${line.depth}em` } }, h("code", {}, name), place, ranks && h("strong", {}, ranks));
}

/** @typedef {{ time: string, kind: string, text: string, attempt?: number, rank?: number | null }} Entry */

/**
 * Fetch and show the timeline of a run whose training began at a time in Unix milliseconds, null if unknown.
 * @returns {Promise<RunEvent[]>} the events of the run
 */
export async function refreshTimeline(/** @type {Run} */ run, /** @type {number | null} */ began) {
  /** @type {RunEvent[]} */
  const events = await get(`/api/runs/${run.id}/events/`);
  const alerts = await get(`/api/runs/${run.id}/alerts/`).catch(() => []); // Prometheus may be away
  /** @type {Entry[]} */
  const entries = [...events, ...entriesOf(alerts)];
  // The master does not record it; the ranks' training time says when it began.
  if (began !== null) entries.push({ kind: "started", text: "Training began", time: new Date(began).toISOString() });
  entries.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
  const start = Date.parse(run.started_at ?? run.created_at);
  // Several ranks may do the same at the same moment.
  const keyOf = ({ time, kind, attempt, rank, text }) => [time, kind, attempt, rank, text].join(" ");
  draw(byId("events"), entries, keyOf, ({ kind, text, time }) => {
    const ms = Date.parse(time) - start;
    const since = h("span", { class: "timeline-since" }, `${ms < 0 ? "−" : "+"} ${duration(Math.abs(ms) / 1000)}`);
    // Its processes ended in order, but not in success.
    const isBad = kind === "finished" && ["nan", "hung"].includes(run.outcome?.kind);
    return h("li", { "data-kind": isBad ? "failed" : kind, title: moment(time) }, since, h("span", { class: "timeline-text" }, marked(text)));
  });
  return events;
}

// When an alert began, and when it ended; one entry for all ranks at the same moment.
function entriesOf(/** @type {RunAlert[]} */ alerts) {
  const changes = alerts.flatMap(({ name, rank, severity, began_at, ended_at }) => [
    { name, rank, time: began_at, change: severity },
    ...(ended_at === null ? [] : [{ name, rank, time: ended_at, change: "resolved" }]),
  ]);
  const groups = Map.groupBy(changes, ({ name, time, change }) => [name, time, change].join(" "));
  return [...groups.values()].map((group) => {
    const [{ name, time, change }] = group;
    const ranks = group.map(({ rank }) => rank).filter((rank) => rank !== null);
    const title = [alertTitle(name), ...(ranks.length ? [namesOf(ranks.sort((a, b) => a - b))] : [])].join(", ");
    return { time, kind: "alert", text: `Alert: ${title} (${change})` };
  });
}
