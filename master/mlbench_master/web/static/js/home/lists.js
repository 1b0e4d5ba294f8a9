// The lists of the home page: the queue and the latest results.

import { h, reconcile, setText } from "../dom.js";
import * as format from "../format.js";
import { setOutcome } from "../outcome.js";
import { codeOf, elapsedSeconds, nameOf } from "../records.js";
import { secondsOf } from "../runs/curves.js";
import { badge } from "../ui.js";
import { smallCurve } from "./chart.js";

/**
 * @import { Run } from "../records.js"
 * @import { RunCurve } from "./chart.js"
 */

/** @returns {string} the resources of a run: `2 workers, 1 core each, GPU`. */
export function resourcesOf(/** @type {Run} */ run) {
  const cores = run.num_cpus && `${format.number(run.num_cpus)} ${run.num_cpus === 1 ? "core" : "cores"} each`;
  return [format.plural(run.num_workers, "worker"), cores, run.gpu_enabled && "GPU"].filter(Boolean).join(", ");
}

/** Show the runs that wait, the next one first. */
export function showQueue(/** @type {HTMLElement} */ list, /** @type {Run[]} */ runs) {
  const create = (run) => h("li", {}, linkTo(run), h("span", { class: "soft" }), h("span", { class: "soft" }));
  reconcile(list, runs, (run) => run.id, create, (row, run) => {
    const [, resources, reason] = row.children;
    const text = run.waiting || (run === runs[0] ? "starts next" : "waiting in the queue");
    setText(resources, resourcesOf(run));
    setText(reason, text);
    /** @type {HTMLElement} */ (reason).title = text;
  });
}

/** Show runs that have ended, each with its outcome, duration, goodput and curve. */
export function showResults(/** @type {HTMLElement} */ list, /** @type {Run[]} */ runs, /** @type {Map<number, RunCurve>} */ curves) {
  const longest = longestOf(runs, curves);
  const create = (run) => h("li", {}, linkTo(run), h("span", {}, badge(run.state)), h("span", { class: "figure" }), h("span", { class: "figure soft" }), h("span"));
  reconcile(list, runs, (run) => run.id, create, (row, run) => {
    const [, outcome, duration, goodput, place] = row.children;
    setOutcome(/** @type {HTMLElement} */ (outcome.firstElementChild), run);
    setText(duration, format.duration(elapsedSeconds(run, 0)));
    const share = run.values.goodput;
    setText(goodput, typeof share === "number" ? `goodput ${format.percent(share)}` : "");
    const curve = run.target && curves.get(run.id);
    const end = longest.get(kindOf(run)) ?? 0;
    const key = curve ? `${curve.values.length} ${curve.values.at(-1)} ${end}` : "";
    if (/** @type {HTMLElement} */ (place).dataset.drawn === key) return;
    /** @type {HTMLElement} */ (place).dataset.drawn = key;
    place.replaceChildren(...(curve ? [smallCurve(curve, run.target, end)] : []));
  });
}

// Curves of the same benchmark and target have one scale.
function longestOf(/** @type {Run[]} */ runs, curves) {
  const longest = new Map();
  for (const run of runs) {
    const curve = curves.get(run.id);
    const end = curve ? secondsOf(curve).at(-1) : 0;
    longest.set(kindOf(run), Math.max(longest.get(kindOf(run)) ?? 0, end));
  }
  return longest;
}

function kindOf(/** @type {Run} */ run) {
  return [codeOf(run), run.target?.metric, run.target?.value].join(" ");
}

function linkTo(/** @type {Run} */ run) {
  const name = nameOf(run);
  return h("a", { href: `/runs/${run.id}`, title: name }, h("bdi", {}, name), h("span", { class: "soft" }, `#${run.id}`));
}
