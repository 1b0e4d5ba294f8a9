// The outcome of a run as a chip: a few words and the state that colours them.

import { h } from "./dom.js";
import * as format from "./format.js";
import { isActive, waitingFor } from "./records.js";
import { setBadge } from "./ui.js";

/**
 * Describe the outcome of a run: `97 % in 9.3 s`, `NaN since step 61`, `hung · rank 1 at step 61`,
 * `crashed · rank 1`, `61.8 of 90 %`, `running · 61.8 of 90 %`. The value is the best one of the target's
 * metric, or the last one of an active run; the state is the kind of the outcome, if there is one.
 */
export function outcomeChip(/** @type {Run} */ run, /** @type {unknown} */ value = run.values?.best) {
  const state = stateOf(run);
  return { state, text: textOf(run, state, value), title: run.outcome?.text || run.reason || waitingFor(run) };
}

/** Show the chip of a run in a badge, or in an element that gets one. */
export function setOutcome(/** @type {HTMLElement} */ place, /** @type {Run} */ run, /** @type {unknown} */ value = run.values?.best) {
  if (!place.matches(".badge") && !place.firstChild) place.append(h("span", { class: "badge" }));
  const badge = place.matches(".badge") ? place : /** @type {HTMLElement} */ (place.firstElementChild);
  const { state, text, title } = outcomeChip(run, value);
  setBadge(badge, state, text);
  badge.title = title;
}

function stateOf(/** @type {Run} */ run) {
  if (run.outcome) return run.outcome.kind;
  if (isActive(run) && run.not_finite) return "nan";
  // The outcome is known a moment after the end.
  const isReached = run.target_reached_at && !run.stop_requested && !["FAILED", "STOPPED"].includes(run.state);
  return isReached ? "reached" : run.state.toLowerCase();
}

function textOf(/** @type {Run} */ run, /** @type {string} */ state, /** @type {unknown} */ value) {
  const { target, target_train_seconds: seconds } = run;
  const { rank = null, step = null } = run.outcome ?? {};
  const aim = target && format.metric(target.metric, target.value);
  const way = target && typeof value === "number" && `${besides(value, target.value)} of ${aim}`;
  const took = seconds == null ? "" : ` in ${format.duration(seconds)}`;
  const first = step ?? run.not_finite?.step ?? null;
  const at = state === "hung" && step !== null && `at step ${format.count(step + 1)}`;
  const place = [rank !== null && `rank ${rank}`, at].filter(Boolean).join(" ");
  const texts = {
    reached: [target && format.isPercent(target.metric) ? `${aim}${took || " reached"}` : `reached${took}`, isActive(run) && "running"],
    nan: [first === null ? "NaN" : `NaN since step ${format.count(first)}`],
    not_reached: [way || `${aim ?? "target"} not reached`],
    initialized: ["queued"],
    started: run.stop_requested ? ["stopping"] : ["running", way],
    stopped: ["stopped", way],
  };
  return (texts[state] ?? [state, place]).filter(Boolean).join(" · ");
}

// A value that misses a target is not rounded to it.
function besides(/** @type {number} */ value, /** @type {number} */ target) {
  const digits = [3, 4, 5, 6].find((count) => value === target || format.number(value, count) !== format.number(target, count));
  return format.number(value, digits ?? 15);
}
