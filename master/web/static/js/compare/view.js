// What the compare page shows, as its address says it, and how that is written. Pure.

export const AXES = ["training", "wall", "step"];
const DASHES = /** @type {const} */ (["solid", "dash", "dot"]);
const COLOURS = 7;

/**
 * @typedef {{ runs: string, goal: string, metric: string, axis: string, isLog: boolean }} View
 * `runs` as it was typed; empty is `goal` for each run's own, `metric` for the goal's, `axis` for
 * the first that was recorded
 */

/** @returns {View} what an address says; what it does not say, or wrongly, is as usual. */
export function toView(/** @type {(name: string) => string} */ read) {
  const axis = read("axis");
  return {
    runs: read("runs"),
    goal: read("goal"),
    metric: read("metric"),
    axis: AXES.includes(axis) ? axis : "",
    isLog: read("scale") === "log",
  };
}

/** @returns {Record<string, string>} the parameters of the address of a view. */
export function toParams(/** @type {View} */ view) {
  return {
    runs: parseRuns(view.runs).ids.join(",") || view.runs,
    goal: view.goal,
    metric: view.metric,
    axis: view.axis,
    scale: view.isLog ? "log" : "",
  };
}

/** @returns {{ ids: number[], wrong: string }} the ids in a text, each once; what is none. */
export function parseRuns(/** @type {string} */ text) {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const isId = (word) => /^[1-9]\d{0,14}$/.test(word);
  return {
    ids: [...new Set(words.filter(isId).map(Number))],
    wrong: words.filter((word) => !isId(word)).join(", "),
  };
}

/** @returns {{ colour: string, dash: "solid" | "dash" | "dot" }} the line of the i-th run. */
export function lookOf(/** @type {number} */ i) {
  return {
    colour: `--series-${i % COLOURS}`,
    dash: DASHES[Math.floor(i / COLOURS) % DASHES.length],
  };
}

/** @returns {string} what a run is called where several are named. */
export function labelOf(/** @type {{ run_id: number, name: string }} */ result) {
  return `${result.run_id} · ${result.name}`;
}
