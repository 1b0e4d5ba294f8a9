// The outcome of a run as a chip: a few words and the state that colours them.

import { h } from "./dom.js";
import * as format from "./format.js";
import { isActive, waitingFor } from "./records.js";
import { setBadge } from "./ui.js";

/**
 * @import { Run, Target } from "./records.js"
 * @typedef {{ state: string, text: string, title: string }} Chip
 */

/**
 * Describe the outcome of a run: `97 % in 9.3 s`, `NaN since step 61`, `hung · rank 1 at step 61`,
 * `crashed · rank 1`, `61.8 of 90 %`, `running · 61.8 of 90 %`.
 * @param {Run} run
 * @param {unknown} [value] best value of the target's metric, or the last one of an active run
 * @returns {Chip} `state` is the kind of the outcome, or the state of a run without an outcome
 */
export function outcomeChip(run, value = run.values?.best) {
  const state = stateOf(run);
  const title = run.outcome?.text || run.reason || waitingFor(run);
  return { state, text: textOf(run, state, wayOf(run.target, value)), title };
}

/** Show the chip of a run in a badge, or in an element that gets one. */
export function setOutcome(/** @type {HTMLElement} */ place, /** @type {Run} */ run, /** @type {unknown} */ value = run.values?.best) {
  const isBadge = place.classList.contains("badge");
  if (!isBadge && !place.firstChild) place.append(h("span", { class: "badge" }));
  const badge = isBadge ? place : /** @type {HTMLElement} */ (place.firstElementChild);
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

function textOf(/** @type {Run} */ run, /** @type {string} */ state, /** @type {string} */ way) {
  const { rank = null, step = null } = run.outcome ?? {};
  const at = state === "hung" && step !== null ? `at step ${format.count(step + 1)}` : "";
  const place = [rank === null ? "" : `rank ${rank}`, at].filter(Boolean).join(" ");
  const joined = (/** @type {string[]} */ ...parts) => parts.filter(Boolean).join(" · ");
  switch (state) {
    case "reached":
      return joined(reachedText(run), isActive(run) ? "running" : "");
    case "nan": {
      const first = step ?? run.not_finite?.step ?? null;
      return first === null ? "NaN" : `NaN since step ${format.count(first)}`;
    }
    case "not_reached":
      return way || (run.target ? `${aimOf(run.target)} not reached` : "target not reached");
    case "initialized":
      return "queued";
    case "started":
      return run.stop_requested ? "stopping" : joined("running", way);
    case "stopped":
      return joined(state, way);
    default:
      return joined(state, place);
  }
}

function reachedText(/** @type {Run} */ { target, target_train_seconds: seconds }) {
  const took = seconds == null ? "" : ` in ${format.duration(seconds)}`;
  return target && format.isPercent(target.metric) ? `${aimOf(target)}${took || " reached"}` : `reached${took}`;
}

// A value on the way to the target, such as `61.8 of 90 %`.
function wayOf(/** @type {Target | null} */ target, /** @type {unknown} */ value) {
  return target && typeof value === "number" ? `${format.number(value, 3)} of ${aimOf(target)}` : "";
}

function aimOf(/** @type {Target} */ { metric, value }) {
  return format.metric(metric, value);
}
