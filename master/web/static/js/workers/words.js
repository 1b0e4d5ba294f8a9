// What is said of workers in words, and which of them a filter means. Pure.

import { ago, duration } from "../format.js";

const SILENT_MS = 15_000;
const STATES = ["running", "idle", "exited", "starting", "silent"];

/**
 * A worker pod as `/api/pods/` tells it.
 * @typedef {{
 *   name: string, phase: string, ip: string | null, node: string | null, run_id: number | null,
 *   rank: number | null, state: "idle" | "running" | "exited" | null, seen_at: string | null
 * }} Pod
 */

/** @returns {string} one of `STATES`: what the pod's agent does, as far as is known. */
export function stateOf(/** @type {Pod} */ pod, /** @type {number} */ now) {
  if (pod.seen_at === null) return "starting";
  return isSilent(pod, now) ? "silent" : pod.state;
}

/** @returns {boolean} whether the pod's agent should have been heard of since. */
export function isSilent(/** @type {Pod} */ pod, /** @type {number} */ now) {
  return pod.seen_at !== null && now - Date.parse(pod.seen_at) > SILENT_MS;
}

/** @returns {string} what the agent does; of a pod that has a rank, the rank is to follow. */
export function doing(/** @type {Pod} */ pod, /** @type {number} */ now) {
  const hasRank = pod.run_id !== null;
  return {
    running: hasRank ? "Works on" : "Ends its process",
    idle: hasRank ? "About to start" : "Idle, ready for a run",
    exited: hasRank ? "Its process has ended:" : "Its process has ended",
    starting: hasRank ? "Starting, for" : "Starting, not heard of yet",
    silent: hasRank ? "Silent, with" : "Silent: down, or out of reach",
  }[stateOf(pod, now)];
}

/** @returns {string} when the agent was last heard of. */
export function seen(/** @type {Pod} */ pod, /** @type {number} */ now) {
  if (pod.seen_at === null) return "not yet";
  if (!isSilent(pod, now)) return ago(pod.seen_at, now);
  return `silent for ${duration((now - Date.parse(pod.seen_at)) / 1000)}`;
}

/** @returns {string} how many there are of each state, such as `2 workers: 1 running, 1 idle`. */
export function summary(/** @type {Pod[]} */ pods, /** @type {number} */ now) {
  const states = pods.map((pod) => stateOf(pod, now));
  const parts = STATES.filter((state) => states.includes(state)).map(
    (state) => `${states.filter((one) => one === state).length} ${state}`,
  );
  return `${pods.length} ${pods.length === 1 ? "worker" : "workers"}: ${parts.join(", ")}`;
}

/**
 * @param {Pod} pod
 * @param {string} filter part of a name, node, phase, state, or of `run 3`
 * @param {number} now
 * @returns {boolean} whether the filter means this pod
 */
export function matches(pod, filter, now) {
  const run = pod.run_id === null ? "" : `run ${pod.run_id}`;
  const wanted = filter.trim().toLowerCase();
  return [pod.name, pod.node ?? "", pod.phase, stateOf(pod, now), run].some((text) =>
    text.toLowerCase().includes(wanted),
  );
}
