// How far a run is: the sections "Progress", "Timeline" and "Delivery".

import { get, now } from "../api.js";
import { byId, h, reconcile, setList, setText } from "../dom.js";
import { clock, count, duration, metric, moment, number, percent, plural, samples } from "../format.js";
import { elapsedSeconds, isActive } from "../records.js";

/** @import { Run, Result, RunAlert, RunEvent } from "../records.js" */

const MAX_ALIKE = 4;

/** The section "Progress". */
export class Progress {
  /** @type {Result | null} the run's result, as far as it is known */
  result = null;

  show(/** @type {Run} */ run) {
    this.#showTarget(run);
    showFigures(byId("figures"), figuresOf(run, this.result, now()));
    const { rule_violations = [], disturbed = [], clock_faults = [], resumptions = [], stragglers } = this.result ?? {};
    const problem = this.result?.training_time_problem;
    setList(byId("rule_violations"), [
      ...(problem ? [`Time to target unknown: ${problem}`] : []),
      ...few(disturbed.map((text) => `Disturbed: ${text}`)),
      ...(stragglers?.text ? [`Straggler: ${stragglers.text}`] : []),
      ...clock_faults.map((text) => `Clocks: ${text}`),
      ...rule_violations.map((text) => `Rule violation: ${text}`),
      ...few(resumptions.map(resumed)),
      ...overlapped(this.result?.hidden_phases ?? {}),
      ...(run.not_recorded ? [`Not recorded: ${run.not_recorded.text}`] : []),
      ...addedTo(run),
    ]);
  }

  #showTarget(/** @type {Run} */ { target }) {
    byId("target").hidden = !target;
    if (!target) return;
    const share = byId("target-share");
    setText(byId("target-metric"), target.metric);
    setText(byId("target-value"), metric(target.metric, this.result?.last_value ?? null));
    const sign = target.lower_is_better ? "or less" : "or more";
    setText(byId("target-target"), `target: ${metric(target.metric, target.value)} ${sign}`);
    const isReached = Boolean(this.result?.time_to_target);
    const best = shareOf(target, this.result, this.result?.best_value);
    share.value = isReached ? 1 : shareOf(target, this.result, this.result?.last_value);
    share.textContent = `${Math.round(share.value * 100)} %`;
    byId("target-best").hidden = isReached || best <= share.value;
    byId("target-best").style.left = `${100 * best}%`;
    byId("target").toggleAttribute("data-reached", isReached);
  }
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

// Name, value and hint of each figure.
function figuresOf(/** @type {Run} */ run, /** @type {Result | null} */ result, moment) {
  const { target } = run;
  const elapsed = duration(elapsedSeconds(run, moment));
  const figures = [["Elapsed", elapsed, isActive(run) ? "so far" : "total"]];
  if (target) {
    figures.push(["Best value", metric(target.metric, result?.best_value ?? null), ""]);
    figures.push(timeToTarget(run, result));
  }
  if (result?.epochs != null) {
    const most = run.settings?.epochs;
    figures.push(["Epochs", count(result.epochs), most ? `maximum ${count(Number(most))}` : ""]);
  }
  const rate = number(result?.samples_per_second);
  const counted = samples(run);
  figures.push([`${counted} per second`, rate, "all ranks, evaluation excluded"]);
  figures.push([counted, count(result?.samples), ""]);
  if (run.max_restarts || run.attempt > 1) {
    figures.push(["Attempt", String(run.attempt), `maximum ${run.max_restarts + 1}`]);
  }
  if (result?.contention_share != null) {
    const mark = result.disturbed.length ? "disturbed" : "most affected rank";
    figures.push(["CPU contention", percent(result.contention_share, 1), mark]);
  }
  if (result) figures.push(["Division", result.division, rulesOf(result)]);
  return figures;
}

function rulesOf(/** @type {Result} */ { division, rule_violations }) {
  if (division === "open") return "no rules";
  return rule_violations.length ? "with rule violations" : "no rule violations";
}

function timeToTarget(run, /** @type {Result | null} */ result) {
  const time = result?.time_to_target;
  const title = "Time to target (training)";
  if (result?.training_time_problem) return [title, "–", "unknown: tracker not restored"];
  if (!time) return [title, "–", isActive(run) ? "not reached yet" : "not reached"];
  const wallClock = duration(time.wall_seconds);
  if (time.training_seconds == null) return ["Time to target (wall clock)", wallClock, ""];
  return [title, duration(time.training_seconds), `${wallClock} wall clock`];
}

function showFigures(list, /** @type {string[][]} */ figures) {
  const create = ([name]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("span"), h("small")));
  reconcile(list, figures, ([name]) => name, create, (element, [, value, hint]) => {
    setText(element.querySelector("dd span"), value);
    setText(element.querySelector("small"), hint);
  });
}

/** The section "Timeline". */
export class Timeline {
  /**
   * @param {number} runId
   * @param {(events: RunEvent[]) => Promise<void>} onEvents called with the events of the run
   */
  constructor(runId, onEvents) {
    this.path = `/api/runs/${runId}`;
    this.onEvents = onEvents;
  }

  async refresh(/** @type {Run} */ run) {
    /** @type {RunEvent[]} */
    const events = await get(`${this.path}/events/`);
    const alerts = await get(`${this.path}/alerts/`).catch(() => []); // Prometheus may be away
    const start = Date.parse(run.started_at ?? run.created_at);
    // Several ranks may do the same at the same moment.
    const keyOf = (event) => [event.time, event.kind, event.attempt, event.rank, event.text].join(" ");
    const entries = [...events, ...alerts.flatMap(toEntries)];
    entries.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
    reconcile(byId("events"), entries, keyOf, createEvent, (item, event) =>
      setText(item.querySelector(".timeline-since"), offset(Date.parse(event.time) - start)),
    );
    await this.onEvents(events);
  }
}

// When an alert began, and when it ended.
function toEntries(/** @type {RunAlert} */ { name, severity, rank, began_at, ended_at }) {
  const alert = `${name}${rank === null ? "" : `, rank ${rank}`}`;
  const entry = (time, text) => ({ time, kind: "alert", attempt: 0, rank, text });
  const began = entry(began_at, `Alert ${alert}: ${severity}`);
  return ended_at === null ? [began] : [began, entry(ended_at, `Alert ${alert}: resolved`)];
}

function createEvent(/** @type {Pick<RunEvent, "time" | "text"> & { kind: string }} */ event) {
  const props = { class: "soft small-text", datetime: event.time, title: moment(event.time) };
  return h(
    "li",
    { "data-kind": event.kind },
    h("span", { class: "timeline-since" }),
    h("span", { class: "timeline-text" }, event.text),
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
