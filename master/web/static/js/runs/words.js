// What is said of a run in a table, in few words. Pure.

import * as format from "../format.js";
import { isActive, waitingFor } from "../pieces.js";

const LONGEST_REASON = 120;

/** @typedef {import("./list.js").Run} Run */

/** @returns {string} why a run is in its state, or what it waits for; empty where that is clear. */
export function why(/** @type {Run} */ run) {
  if (run.state === "STARTED" && run.stop_requested) return "stopping";
  if (isActive(run)) return waitingFor(run);
  const line = run.reason.trim().split("\n")[0];
  if (!line) return waitingFor(run);
  return line.length > LONGEST_REASON ? `${line.slice(0, LONGEST_REASON)}…` : line;
}

/** @returns {string} what limits each worker, such as `1 core, 100 Mbit/s`; empty for nothing. */
export function limits(/** @type {Run} */ run) {
  const parts = [
    run.num_cpus && `${format.number(run.num_cpus)} ${run.num_cpus === 1 ? "core" : "cores"} each`,
    run.max_bandwidth && `${format.number(run.max_bandwidth)} Mbit/s`,
    run.gpu_enabled && "GPU",
  ];
  return parts.filter(Boolean).join(", ");
}

/** @returns {number | null} seconds from a run's start to its end, or to now. */
export function secondsOf(/** @type {Run} */ run, /** @type {number} */ now) {
  if (run.started_at === null) return null;
  const end = run.finished_at === null ? now : Date.parse(run.finished_at);
  return Math.max(0, (end - Date.parse(run.started_at)) / 1000);
}

/** @returns {string} how long it takes; of one that goes on, in whole seconds. */
export function lasting(/** @type {Run} */ run, /** @type {number} */ now) {
  const seconds = secondsOf(run, now);
  return format.duration(seconds !== null && isActive(run) ? Math.floor(seconds) : seconds);
}

/** @returns {{ text: string, metric: string, isReached: boolean }} how it went with the goal. */
export function result(/** @type {Run} */ run) {
  if (!run.goal) return { text: "–", metric: "", isReached: false };
  const { metric } = run.goal;
  const goal = format.metric(metric, run.goal.value);
  if (run.goal_reached_at === null) {
    const text = isActive(run) ? `on the way to ${goal}` : `${goal} not reached`;
    return { text, metric, isReached: false };
  }
  const took = run.goal_train_seconds;
  const text = took === null ? goal : `${goal} in ${format.duration(took)}`;
  return { text, metric, isReached: true };
}
