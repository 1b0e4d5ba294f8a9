// The outcome of a run in a few words.

import * as format from "../format.js";
import { isActive, waitingFor } from "../records.js";

/** @import { Run } from "../records.js" */

/**
 * What a run has come to: `97 % in 9.3 s`, `NaN since step 61`, `61.8 of 90 %`, `crashed · rank 1`.
 * @param {Run} run
 * @param {number | null} [value] the best value of the target's metric, of an active run the last
 * @returns {{ kind: string, text: string, title: string }} `kind` is an outcome or a state
 */
export function chipOf(run, value) {
  const { outcome, target } = run;
  const title = outcome?.text || run.reason || waitingFor(run);
  const kind = kindOf(run);
  const part = value == null || !target ? "" : `${format.number(value, 3)} of ${aimOf(target)}`;
  switch (kind) {
    case "reached":
      return { kind, text: [reachedText(run), isActive(run) && "running"].filter(Boolean).join(" · "), title };
    case "nan":
      return { kind, text: withStep("NaN since step", outcome?.step ?? run.not_finite?.step) || "NaN", title };
    case "hung":
      return { kind, text: withStep("hung after step", outcome.step) || "hung", title };
    case "crashed":
      return { kind, text: outcome.rank == null ? "crashed" : `crashed · rank ${outcome.rank}`, title };
    case "not_reached":
      return { kind, text: part || `${aimOf(target)} not reached`, title };
    case "initialized":
      return { kind, text: "queued", title };
    case "started":
      return { kind, text: run.stop_requested ? "stopping" : ["running", part].filter(Boolean).join(" · "), title };
    default:
      return { kind, text: [kind, kind === "stopped" && part].filter(Boolean).join(" · "), title };
  }
}

function kindOf(/** @type {Run} */ run) {
  if (run.outcome) return run.outcome.kind;
  if (isActive(run) && run.not_finite) return "nan";
  // The outcome is known a moment after the end.
  const isReached = run.target_reached_at && !run.stop_requested && !["FAILED", "STOPPED"].includes(run.state);
  return isReached ? "reached" : run.state.toLowerCase();
}

function reachedText(/** @type {Run} */ { target, target_train_seconds: seconds }) {
  if (!target) return "target reached";
  const took = seconds == null ? "" : ` in ${format.duration(seconds)}`;
  return format.isPercent(target.metric) ? `${aimOf(target)}${took}` : `reached${took}`;
}

function aimOf(target) {
  return format.metric(target.metric, target.value);
}

function withStep(text, step) {
  return step == null ? "" : `${text} ${format.count(step)}`;
}
