// How far a run is: the sections "Progress", "Timeline" and "Delivery".

import { get, now } from "../api.js";
import { byId, h, reconcile, setList, setNotice, setText } from "../dom.js";
import { NONE, clock, count, duration, metric, metricTitle, moment, number, percent, plural, samples, spans } from "../format.js";
import { elapsedSeconds, isActive } from "../records.js";
import { marked, plannedIn } from "./failure.js";
import { alertTitle } from "./findings.js";

/**
 * @import { Run, Result, RunAlert, RunEvent } from "../records.js"
 * @import { Entry } from "./failure.js"
 */

const MAX_ALIKE = 4;
// Longer timelines are folded in their middle: a run is understood by its start and its end.
const [FIRST_EVENTS, LAST_EVENTS] = [5, 8];
const UNKNOWN = "not known";

/** The section "Progress". */
export class Progress {
  /** @type {Result | null} the run's result, as far as it is known */
  result = null;
  /** Whether the result could not be loaded. */
  hasFailed = false;
  /** @type {string[][] | null} figures of the messages, which replace those of training */
  peaks = null;

  show(/** @type {Run} */ run) {
    const { result } = this;
    showFigures(byId("figures"), figuresOf(run, result, now(), this));
    const share = byId("target-share");
    share.hidden = !isActive(run) || !run.target || !result;
    if (!share.hidden) share.value = result.time_to_target ? 1 : shareOf(run.target, result, result.last_value);
    const remarks = remarksOf(run, result);
    byId("remarks").hidden = !remarks.length;
    setList(byId("remarks-list"), remarks);
  }
}

/** @returns {string[]} what to know about how the result came about. */
export function remarksOf(/** @type {Run} */ run, /** @type {Result | null} */ result) {
  const { rule_violations = [], disturbed = [], clock_faults = [], resumptions = [], stragglers } = result ?? {};
  const problem = result?.training_time_problem;
  return [
    ...(problem ? [`Time to target unknown: ${problem}`] : []),
    ...few(disturbed.map((text) => `Disturbed: ${text}`)),
    ...(stragglers?.text ? [`Straggler: ${stragglers.text}`] : []),
    ...clock_faults.map((text) => `Clocks: ${text}`),
    ...rule_violations.map((text) => `Rule violation: ${text}`),
    ...few(resumptions.map(resumed)),
    ...overlapped(result?.hidden_phases ?? {}),
    ...(run.not_recorded ? [`Not recorded: ${run.not_recorded.text}`] : []),
    ...addedTo(run),
  ];
}

/** Return the first texts of a list that may be long, and the number of the others. */
export function few(/** @type {string[]} */ texts) {
  const left = texts.length - MAX_ALIKE;
  return left > 0 ? [...texts.slice(0, MAX_ALIKE), `${left} more, see the API`] : texts;
}

// The step from which a restart resumed, and its discarded steps.
function resumed(/** @type {Result["resumptions"][number]} */ { step, discarded_steps, stated }) {
  const from = step ? `resumed from step ${step}` : "restarted from scratch";
  const how = stated ? "" : " (inferred from step numbers)";
  const again = discarded_steps ? `; ${plural(discarded_steps, "discarded step")}, excluded from curves and result` : "";
  return `Restart: ${from}${how}${again}`;
}

// Phases in threads that do not step, such as prefetching.
function overlapped(/** @type {Record<string, number>} */ phases) {
  const parts = Object.entries(phases).map(([phase, seconds]) => `${phase} ${duration(seconds)}`);
  return parts.length ? [`Overlapped with training in other threads, per rank: ${parts.join(", ")}`] : [];
}

/** @returns {string[]} the samples that were posted after the end, and those of lost ranks. */
export function addedTo(/** @type {Pick<Run, "added">} */ { added }) {
  if (!added) return [];
  const [first, last] = [moment(added.first_at), moment(added.last_at)];
  const when = first === last ? `at ${first}` : `from ${first} to ${last}`;
  const late = added.of_lost_ranks;
  const sentence = (samples, how) => {
    const verb = samples === 1 ? "was" : "were";
    return `${plural(samples, "sample")} ${verb} ${how}, ${when}; not part of the result`;
  };
  return [
    ...(added.samples > late ? [sentence(added.samples - late, "added after the end")] : []),
    ...(late ? [sentence(late, "sent by ranks after they were lost")] : []),
  ];
}

// The share of the way to the target at a value: from 0 upwards, or from the first value down.
function shareOf(target, /** @type {Result | null} */ result, /** @type {number | null} */ value) {
  if (value == null) return 0;
  const isUpwards = !target.lower_is_better && target.value > 0;
  const first = isUpwards ? 0 : (result.curve?.values[0] ?? value);
  const share = (value - first) / (target.value - first);
  return Number.isFinite(share) ? Math.min(1, Math.max(0, share)) : 0;
}

/**
 * @param {Run} run
 * @param {Result | null} result
 * @param {number} moment the master's time
 * @param {{ hasFailed?: boolean, peaks?: string[][] | null }} [state] whether the result cannot be
 *   loaded, and figures that replace those of training
 * @returns {string[][]} name, value and hint of each figure
 */
export function figuresOf(run, result, moment, { hasFailed = false, peaks = null } = {}) {
  const { target } = run;
  const isUnknown = hasFailed && !result;
  const of = (/** @type {string} */ text) => (isUnknown ? UNKNOWN : text);
  const figures = [];
  if (target) {
    const best = of(metric(target.metric, result?.best_value ?? null));
    figures.push([metricTitle(target.metric), best, `${target.metric}: best value, target ${metric(target.metric, target.value)}`]);
    figures.push(...timesToTarget(run, result, isUnknown));
  } else {
    figures.push(["Duration", duration(elapsedSeconds(run, moment)), isActive(run) ? "so far" : "from the start to the end"]);
    const steps = Math.max(...(result?.ranks ?? []).map((rank) => rank.steps ?? NaN));
    figures.push(["Steps", of(Number.isFinite(steps) ? count(steps) : NONE), ""]);
  }
  if (peaks) return [...figures.slice(0, 1), ...peaks];
  const perSecond = `${samples(run)}/s`;
  figures.push([perSecond, of(number(result?.samples_per_second)), "Training throughput of all ranks, without evaluation"]);
  figures.push(["Goodput", of(percent(result?.goodput?.share)), "Share of worker time that advanced the final model"]);
  figures.push(["CPU contention", of(percent(result?.contention_share)), "Share of the time that the most affected rank waited for other programs"]);
  return figures;
}

function timesToTarget(/** @type {Run} */ run, /** @type {Result | null} */ result, /** @type {boolean} */ isUnknown) {
  const time = result?.time_to_target;
  const [training, wall] = ["Time to target, training", "Wall clock"];
  const problem = result?.training_time_problem;
  if (isUnknown || problem) return [[training, UNKNOWN, problem ?? ""]];
  const elapsed = duration(elapsedSeconds(run, now()));
  if (!time) {
    const none = isActive(run) ? "not yet" : "not reached";
    return [[training, result ? none : NONE, ""], [wall, elapsed, "From the start to the end, or to now"]];
  }
  return [
    [training, duration(time.training_seconds), "Training time until the target was reached, without evaluation"],
    [wall, duration(time.wall_seconds), `Time from the start until the target was reached; the run took ${elapsed}`],
  ];
}

function showFigures(list, /** @type {string[][]} */ figures) {
  const create = ([name]) => h("div", {}, h("dt", {}, name), h("dd"));
  reconcile(list, figures, ([name]) => name, create, (element, [, value, hint]) => {
    setText(element.querySelector("dd"), value);
    element.title = hint;
    element.toggleAttribute("data-unknown", value === UNKNOWN);
  });
}

/** The section "Timeline". */
export class Timeline {
  /** @type {Entry[]} */
  #entries = [];
  #start = 0;
  #isOpen = false;
  /** @type {number | null} when training began, in Unix milliseconds; null if unknown */
  firstStepAt = null;

  /**
   * @param {number} runId
   * @param {(events: RunEvent[]) => Promise<void>} onEvents called with the events of the run
   */
  constructor(runId, onEvents) {
    this.path = `/api/runs/${runId}`;
    this.onEvents = onEvents;
    byId("more-events").addEventListener("click", () => {
      this.#isOpen = true;
      this.#draw();
    });
  }

  async refresh(/** @type {Run} */ run) {
    /** @type {RunEvent[]} */
    const events = await get(`${this.path}/events/`);
    const alerts = await get(`${this.path}/alerts/`).catch(() => []); // Prometheus may be away
    this.#entries = [...events.map(plannedIn(events)), ...this.#firstStep(run), ...toEntries(alerts)];
    this.#entries.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
    this.#start = Date.parse(run.started_at ?? run.created_at);
    this.#draw();
    await this.onEvents(events);
  }

  // The master does not record it; the ranks' training time says when it began.
  #firstStep(/** @type {Run} */ { attempt }) {
    const at = this.firstStepAt;
    const entry = { kind: "started", attempt, rank: null, text: "Training began" };
    return at === null ? [] : [{ ...entry, time: new Date(at).toISOString() }];
  }

  #draw() {
    const hidden = this.#isOpen ? 0 : this.#entries.length - FIRST_EVENTS - LAST_EVENTS;
    const shown = this.#entries.filter((_, i) => hidden <= 1 || i < FIRST_EVENTS || i >= FIRST_EVENTS + hidden);
    // Several ranks may do the same at the same moment.
    const keyOf = (event) => [event.time, event.kind, event.attempt, event.rank, event.text].join(" ");
    reconcile(byId("events"), shown, keyOf, createEvent, (item, event) => {
      setText(item.querySelector(".timeline-since"), offset(Date.parse(event.time) - this.#start));
      item.classList.toggle("is-after-gap", hidden > 1 && event === shown[FIRST_EVENTS]);
    });
    setNotice(byId("more-events"), hidden > 1 ? `Show all ${count(this.#entries.length)}` : "");
  }
}

// When an alert began, and when it ended; one entry for all ranks at the same moment.
function toEntries(/** @type {RunAlert[]} */ alerts) {
  const entries = new Map();
  const add = (/** @type {RunAlert} */ { name, rank }, time, end) => {
    const key = [name, time, end].join(" ");
    if (!entries.has(key)) entries.set(key, { time, end, name, ranks: [] });
    if (rank !== null) entries.get(key).ranks.push(rank);
  };
  for (const alert of alerts) {
    add(alert, alert.began_at, alert.severity);
    if (alert.ended_at !== null) add(alert, alert.ended_at, "resolved");
  }
  return [...entries.values()].map(({ time, end, name, ranks }) => {
    const who = ranks.length ? `, ${ranks.length === 1 ? "rank" : "ranks"} ${spans(ranks.sort((a, b) => a - b))}` : "";
    return { time, kind: "alert", attempt: 0, rank: null, text: `Alert: ${alertTitle(name)}${who} (${end})` };
  });
}

function createEvent(/** @type {Entry} */ event) {
  const props = { class: "soft small-text", datetime: event.time, title: moment(event.time) };
  return h(
    "li",
    { "data-kind": event.kind },
    h("span", { class: "timeline-since" }),
    h("span", { class: "timeline-text" }, ...marked(event.text)),
    h("time", props, clock(event.time)),
  );
}

function offset(ms) {
  return `${ms < 0 ? "−" : "+"} ${duration(Math.abs(ms) / 1000)}`;
}

/** Show the section "Delivery": the location of the run's samples, and the number of missing ones. */
export function showDelivery(/** @type {Run} */ run) {
  const { delivery } = run;
  const { verdict, text } = judgeDelivery(run);
  setText(byId("delivery-verdict"), text);
  byId("delivery-verdict").dataset.verdict = verdict;
  byId("delivery-figures").hidden = !delivery;
  if (!delivery) return;
  const recorded = count(delivery.recorded);
  const places = [
    ["In Prometheus", count(delivery.in_prometheus), "counted by a query"],
    ["Database only", count(delivery.in_database), "not storable in Prometheus"],
  ];
  const archive = [["In the archive", recorded, "with a digest of each series"]];
  const figures = [["Recorded", recorded, "by the ranks"], ...(run.origin ? archive : places)];
  showFigures(byId("delivery-figures"), figures);
}

/** @returns {{ verdict: "good" | "bad" | "open", text: string }} whether samples are missing. */
export function judgeDelivery(/** @type {Run} */ run) {
  const { delivery } = run;
  if (!delivery) return { verdict: "open", text: uncounted(run) };
  const lost = delivery.recorded - delivery.in_prometheus - delivery.in_database;
  if (lost > 0)
    return { verdict: "bad", text: `Missing samples: ${count(lost)}.` };
  if (lost < 0)
    return { verdict: "bad", text: `Duplicated samples: ${count(-lost)}.` };
  if (!delivery.recorded)
    return { verdict: "open", text: "No missing samples: the run recorded nothing." };
  return { verdict: "good", text: "No missing samples: every recorded sample is stored." };
}

function uncounted(run) {
  if (isActive(run)) return "Samples are counted at the end of the run.";
  if (run.waiting) return `Not yet counted: ${run.waiting}.`;
  return "Not counted: the run ended before its ranks started.";
}
