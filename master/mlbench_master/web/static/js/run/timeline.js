// The section "Timeline": the events of a run, when its training began, and its alerts.

import { get } from "../api.js";
import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import { count, duration, moment } from "../format.js";
import { marked, plannedIn } from "./failure.js";
import { alertTitle } from "./findings.js";
import { namesOf } from "./ranks.js";

/** @typedef {{ time: string, kind: string, text: string, attempt?: number, rank?: number | null }} Entry */

// The style sheet folds longer timelines in their middle: a run is understood by its start and its end.
const FOLDED_EVENTS = 13;

/**
 * Fetch and show the timeline of a run whose training began at a time in Unix milliseconds, null if unknown.
 * @returns {Promise<RunEvent[]>} the events of the run
 */
export async function refreshTimeline(/** @type {Run} */ run, /** @type {number | null} */ began) {
  /** @type {RunEvent[]} */
  const events = await get(`/api/runs/${run.id}/events/`);
  const alerts = await get(`/api/runs/${run.id}/alerts/`).catch(() => []); // Prometheus may be away
  /** @type {Entry[]} */
  const entries = [...events.map(plannedIn(events)), ...entriesOf(alerts)];
  // The master does not record it; the ranks' training time says when it began.
  if (began !== null) entries.push({ kind: "started", text: "Training began", time: new Date(began).toISOString() });
  entries.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
  const start = Date.parse(run.started_at ?? run.created_at);
  const list = byId("events");
  // Several ranks may do the same at the same moment.
  const keyOf = ({ time, kind, attempt, rank, text }) => [time, kind, attempt, rank, text].join(" ");
  reconcile(list, entries, keyOf, createEvent, (item, { time }) => {
    const ms = Date.parse(time) - start;
    setText(item.firstElementChild, `${ms < 0 ? "−" : "+"} ${duration(Math.abs(ms) / 1000)}`);
  });
  const more = byId("more-events");
  const isFolded = entries.length > FOLDED_EVENTS && !list.classList.contains("is-open");
  setNotice(more, isFolded ? `Show all ${count(entries.length)}` : "");
  more.onclick = () => {
    list.classList.add("is-open");
    more.hidden = true;
  };
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

function createEvent(/** @type {Entry} */ { kind, text, time }) {
  const since = h("span", { class: "timeline-since" });
  return h("li", { "data-kind": kind, title: moment(time) }, since, h("span", { class: "timeline-text" }, marked(text)));
}
