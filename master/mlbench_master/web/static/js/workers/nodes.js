// Workers by node: their states, counts and squares.

import { h } from "../dom.js";
import * as format from "../format.js";

const SILENT_MS = 15_000;
const STATES = /** @type {const} */ (["running", "idle", "exited", "starting", "silent"]);
const NATURAL = new Intl.Collator("en", { numeric: true });

/** @typedef {{ node: string, pods: Pod[] }} Node */

/** @returns {typeof STATES[number]} the state of a worker; `silent` if its heartbeat is late. */
export function stateOf(/** @type {Pod} */ pod, /** @type {number} */ now) {
  if (pod.seen_at === null) return "starting";
  return now - Date.parse(pod.seen_at) > SILENT_MS ? "silent" : (pod.state ?? "idle");
}

/** @returns {Node[]} nodes and their workers, with numbers in their names in natural order. */
export function nodesOf(/** @type {Pod[]} */ pods) {
  const byNode = Map.groupBy(pods.toSorted((a, b) => NATURAL.compare(a.name, b.name)), ({ node }) => node || "unknown node");
  return [...byNode].map(([node, workers]) => ({ node, pods: workers })).sort((a, b) => NATURAL.compare(a.node, b.node));
}

/** @returns {string} the number of workers in each state, such as `4 busy, 19 idle, 1 silent`. */
export function countsOf(/** @type {Pod[]} */ pods, /** @type {number} */ now) {
  const byState = Map.groupBy(pods, (pod) => stateOf(pod, now));
  const words = STATES.filter((state) => byState.has(state)).map((state) => `${format.count(byState.get(state).length)} ${state}`);
  return words.join(", ").replace("running", "busy");
}

/** @returns {string} the activity of a worker in a word or two. */
export function activityOf(/** @type {Pod} */ pod, /** @type {number} */ now) {
  const hasRank = pod.run_id !== null;
  return {
    running: hasRank ? "running" : "stopping its process",
    idle: hasRank ? "about to start" : "idle",
    exited: "process exited",
    starting: "starting, no heartbeat yet",
    silent: pod.seen_at === null ? "" : `silent for ${format.duration((now - Date.parse(pod.seen_at)) / 1000)}`,
  }[stateOf(pod, now)];
}

/** @returns {string} the run and rank of a worker, such as `run 3, rank 1`; empty without a run. */
export function rankOf(/** @type {Pod} */ pod) {
  return pod.run_id === null ? "" : `run ${pod.run_id}, rank ${pod.rank}`;
}

/** @returns {HTMLElement} the workers on a node as a list of squares, each with a link to its page. */
export function squaresOf(/** @type {string} */ node, /** @type {Pod[]} */ pods, /** @type {number} */ now) {
  const squares = pods.map((pod) => {
    const text = `${pod.name}: ${[activityOf(pod, now), rankOf(pod)].filter(Boolean).join(", ")}`;
    const props = { href: `/workers/${encodeURIComponent(pod.name)}`, title: text, "aria-label": text };
    return h("li", {}, h("a", { ...props, "data-worker": stateOf(pod, now) }));
  });
  return h("ul", { class: "squares", role: "list", "aria-label": `Workers on ${node}` }, squares);
}
