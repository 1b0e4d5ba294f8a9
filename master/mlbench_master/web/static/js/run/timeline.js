// The section "Timeline": the events of a run, when its training began, and its alerts.

import { get } from "../api.js";
import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import { count, duration, moment } from "../format.js";
import { marked, plannedIn } from "./failure.js";
import { alertTitle } from "./findings.js";
import { namesOf } from "./ranks.js";

/**
 * @import { Run, RunAlert, RunEvent } from "../records.js"
 * @typedef {{ time: string, kind: string, text: string, attempt?: number, rank?: number | null }} Entry
 */

// The style sheet folds longer timelines in their middle: a run is understood by its start and its end.
const FOLDED_EVENTS = 13;

export class Timeline {
  #list = byId("events");
  #more = byId("more-events");
  /** @type {number | null} when training began, in Unix milliseconds; null if unknown */
  firstStepAt = null;

  /**
   * @param {number} runId
   * @param {(events: RunEvent[]) => Promise<void>} onEvents called with the events of the run
   */
  constructor(runId, onEvents) {
    this.path = `/api/runs/${runId}`;
    this.onEvents = onEvents;
    this.#more.addEventListener("click", () => {
      this.#list.classList.add("is-open");
      this.#more.hidden = true;
    });
  }

  async refresh(/** @type {Run} */ run) {
    /** @type {RunEvent[]} */
    const events = await get(`${this.path}/events/`);
    const alerts = await get(`${this.path}/alerts/`).catch(() => []); // Prometheus may be away
    /** @type {Entry[]} */
    const entries = [...events.map(plannedIn(events)), ...entriesOf(alerts)];
    // The master does not record it; the ranks' training time says when it began.
    const began = this.firstStepAt;
    if (began !== null) entries.push({ kind: "started", text: "Training began", time: new Date(began).toISOString() });
    entries.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
    const start = Date.parse(run.started_at ?? run.created_at);
    // Several ranks may do the same at the same moment.
    const keyOf = ({ time, kind, attempt, rank, text }) => [time, kind, attempt, rank, text].join(" ");
    reconcile(this.#list, entries, keyOf, createEvent, (item, { time }) => {
      const ms = Date.parse(time) - start;
      setText(item.firstElementChild, `${ms < 0 ? "−" : "+"} ${duration(Math.abs(ms) / 1000)}`);
    });
    const isFolded = entries.length > FOLDED_EVENTS && !this.#list.classList.contains("is-open");
    setNotice(this.#more, isFolded ? `Show all ${count(entries.length)}` : "");
    await this.onEvents(events);
  }
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

function createEvent(/** @type {Entry} */ { kind, text, time }) {
  const since = h("span", { class: "timeline-since" });
  return h("li", { "data-kind": kind, title: moment(time) }, since, h("span", { class: "timeline-text" }, marked(text)));
}
