// How far a run is, and how its result came about: "Progress", "Notes on the result" and "Delivery".

import { now } from "../api.js";
import { byId, draw, h, setText } from "../dom.js";
import { NONE, count, duration, metric, metricTitle, moment, number, percent, plural, samples } from "../format.js";
import { elapsedSeconds, isActive, missingOf } from "../records.js";
import { showPairs } from "../ui.js";

/**
 * Name, value and hint of a figure.
 * @typedef {string[]} Figure
 *
 * Whether the result cannot be loaded, and figures that replace the figures of training.
 * @typedef {{ isMissing?: boolean, peaks?: Figure[] | null }} State
 */

const MAX_ALIKE = 4;
const UNKNOWN = "not known";

/** Show the section "Progress". */
export function showProgress(/** @type {Run} */ run, /** @type {Result | null} */ result, /** @type {State} */ state) {
  showPairs(byId("figures"), figuresOf(run, result, now(), state));
}

/** @returns {Figure[]} the figures of a run at a moment of the master's time; the result is null until it is known. */
export function figuresOf(/** @type {Run} */ run, /** @type {Result} */ result, /** @type {number} */ at, /** @type {State} */ state = {}) {
  const { isMissing = false, peaks = null } = state;
  const { target } = run;
  const known = (/** @type {string} */ text) => (isMissing && !result ? UNKNOWN : text);
  const elapsed = duration(elapsedSeconds(run, at));
  const best = target
    ? [
        ...[metricTitle(target.metric), known(metric(target.metric, result?.best_value ?? null))],
        `${target.metric}: best value, target ${metric(target.metric, target.value)}`,
      ]
    : ["Duration", elapsed, isActive(run) ? "so far" : "from the start to the end"];
  if (peaks) return [best, ...peaks];
  const steps = Math.max(...(result?.ranks ?? []).map((rank) => rank.steps ?? NaN));
  return [
    best,
    ...(target ? timesToTarget(run, result, elapsed, known) : [["Steps", known(Number.isFinite(steps) ? count(steps) : NONE), ""]]),
    [`${samples(run)}/s`, known(number(result?.samples_per_second)), "Training throughput of all ranks, without evaluation"],
    ["Goodput", known(percent(result?.goodput?.share)), "Share of worker time that advanced the final model"],
    ["CPU contention", known(percent(result?.contention_share)), "Share of the time that the most affected rank waited for other programs"],
  ];
}

/** @returns {Figure[]} */
function timesToTarget(/** @type {Run} */ run, /** @type {Result | null} */ result, /** @type {string} */ elapsed, known) {
  const title = "Time to target, training";
  const { time_to_target: time, training_time_problem: problem } = result ?? {};
  if (problem) return [[title, UNKNOWN, problem]];
  if (time) {
    return [
      [title, duration(time.training_seconds), "Training time until the target was reached, without evaluation"],
      ["Wall clock", duration(time.wall_seconds), `Time from the start until the target was reached; the run took ${elapsed}`],
    ];
  }
  const none = isActive(run) ? "not yet" : "not reached";
  return [[title, result ? none : known(NONE), ""], ["Wall clock", elapsed, "From the start to the end, or to now"]];
}

/** Show the section "Notes on the result". */
export function showRemarks(/** @type {Run} */ run, /** @type {Result | null} */ result) {
  const { rule_violations = [], disturbed = [], clock_faults = [], resumptions = [], hidden_phases = {} } = result ?? {};
  const problem = result?.training_time_problem;
  const straggler = result?.stragglers?.text;
  // Phases in threads that do not step, such as prefetching.
  const overlapped = Object.entries(hidden_phases).map(([phase, seconds]) => `${phase} ${duration(seconds)}`);
  const remarks = [
    problem && `Time to target unknown: ${problem}`,
    ...few(disturbed.map((text) => `Disturbed: ${text}`)),
    straggler && `Straggler: ${straggler}`,
    ...clock_faults.map((text) => `Clocks: ${text}`),
    ...rule_violations.map((text) => `Rule violation: ${text}`),
    ...few(resumptions.map(resumed)),
    overlapped.length && `Overlapped with training in other threads, per rank: ${overlapped.join(", ")}`,
    run.not_recorded && `Not recorded: ${run.not_recorded.text}`,
    ...addedTo(run),
  ].filter(Boolean);
  byId("remarks").hidden = !remarks.length;
  draw(byId("remarks-list"), remarks, String, (remark) => h("li", {}, Array.isArray(remark) ? folded(remark) : remark));
}

const folded = (/** @type {string[]} */ texts) =>
  h("details", {}, h("summary", {}, `${count(texts.length)} more`), h("ul", {}, texts.map((text) => h("li", {}, text))));

/** @returns {(string | string[])[]} the first texts of a list that may be long, and a list of the others. */
export function few(/** @type {string[]} */ texts) {
  return texts.length > MAX_ALIKE + 1 ? [...texts.slice(0, MAX_ALIKE), texts.slice(MAX_ALIKE)] : texts;
}

// The step from which a restart resumed, and its discarded steps.
function resumed(/** @type {Result["resumptions"][number]} */ { step, discarded_steps, stated }) {
  const from = step ? `resumed from step ${step}` : "restarted from scratch";
  const how = stated ? "" : " (inferred from step numbers)";
  const again = discarded_steps ? `; ${plural(discarded_steps, "discarded step")}, excluded from curves and result` : "";
  return `Restart: ${from}${how}${again}`;
}

/** @returns {string[]} the samples that were posted after the end, and the samples of lost ranks. */
export function addedTo(/** @type {Pick<Run, "added">} */ { added }) {
  if (!added) return [];
  const [first, last] = [moment(added.first_at), moment(added.last_at)];
  const when = first === last ? `at ${first}` : `from ${first} to ${last}`;
  const counts = { "added after the end": added.samples - added.of_lost_ranks, "sent by ranks after they were lost": added.of_lost_ranks };
  return Object.entries(counts).filter(([, samples]) => samples).map(([how, samples]) =>
    `${plural(samples, "sample")} ${samples === 1 ? "was" : "were"} ${how}, ${when}; not part of the result`,
  );
}

/** Show the section "Delivery": whether samples are missing. */
export function showDelivery(/** @type {Run} */ run) {
  const { verdict, text } = judgeDelivery(run);
  setText(byId("delivery-verdict"), text);
  byId("delivery-verdict").dataset.verdict = verdict;
}

/** @returns {{ verdict: "good" | "bad" | "open", text: string }} whether samples are missing. */
export function judgeDelivery(/** @type {Run} */ run) {
  const { delivery } = run;
  if (!delivery) {
    const ended = run.waiting ? `Not yet counted: ${run.waiting}.` : "Not counted: the run ended before its ranks started.";
    return { verdict: "open", text: isActive(run) ? "Samples are counted at the end of the run." : ended };
  }
  const lost = missingOf(delivery);
  if (lost > 0) return { verdict: "bad", text: `Prometheus lacks ${count(lost)} of ${count(delivery.recorded)} samples. The record has all.` };
  if (lost < 0) return { verdict: "bad", text: `Prometheus has ${plural(-lost, "sample")} too many.` };
  if (!delivery.recorded) return { verdict: "open", text: "No missing samples: the run recorded nothing." };
  const text = `No missing samples: ${count(delivery.recorded)} recorded, ${count(delivery.in_prometheus)} in Prometheus`;
  return { verdict: "good", text: `${text}, ${count(delivery.record_only)} in the record only, such as texts.` };
}
