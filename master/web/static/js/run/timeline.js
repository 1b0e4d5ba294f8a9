// What happened to the run, in order of time.

import { get } from "../api.js";
import { h, keep, setText } from "../dom.js";
import { clock, duration, moment } from "../format.js";

/** @typedef {import("../records.js").Run} Run */

/** The section "Timeline". */
export class Timeline {
  /**
   * @param {HTMLElement} list
   * @param {number} runId
   * @param {(events: object[]) => void} onEvents
   */
  constructor(list, runId, onEvents) {
    this.list = list;
    this.path = `/api/runs/${runId}/events/`;
    this.onEvents = onEvents;
  }

  /** Fetch the events, and show them. */
  async refresh(/** @type {Run} */ run) {
    const events = await get(this.path);
    const start = Date.parse(run.started_at ?? run.created_at);
    keep(
      this.list,
      events.map(withKey),
      (event) => event.key,
      create,
      (item, event) => {
        setText(item.querySelector(".timeline-since"), since(Date.parse(event.time) - start));
      },
    );
    this.onEvents(events);
  }
}

// Several ranks may do the same at the same moment.
function withKey(event) {
  return { ...event, key: [event.time, event.kind, event.attempt, event.rank].join(" ") };
}

function create(event) {
  return h(
    "li",
    { "data-kind": event.kind },
    h("span", { class: "timeline-since" }),
    h("span", { class: "timeline-text" }, event.text),
    h(
      "time",
      { class: "soft small-text", datetime: event.time, title: moment(event.time) },
      clock(event.time),
    ),
  );
}

function since(ms) {
  return `${ms < 0 ? "−" : "+"} ${duration(Math.abs(ms) / 1000)}`;
}
