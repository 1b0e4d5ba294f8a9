// The lists of the home page: the queue, the latest results, and figures with their titles.

import { h, reconcile, setText } from "../dom.js";
import * as format from "../format.js";
import { setOutcome } from "../outcome.js";
import { elapsedSeconds, nameOf } from "../records.js";

/**
 * @import { Run } from "../records.js"
 *
 * The title, text and explanation of a figure; true where it is bad.
 * @typedef {[string, string, string?, boolean?]} Pair
 */

/** @returns {string} the resources of a run: `2 workers, 1 core each, GPU`. */
export function resourcesOf(/** @type {Run} */ run) {
  const cores = run.num_cpus && `${format.number(run.num_cpus)} ${run.num_cpus === 1 ? "core" : "cores"} each`;
  return [format.plural(run.num_workers, "worker"), cores, run.gpu_enabled && "GPU"].filter(Boolean).join(", ");
}

// Rows begin with the name of the run; `classes` are those of its other parts.
function fillRows(list, /** @type {Run[]} */ runs, /** @type {string[]} */ classes, fill) {
  const create = (/** @type {Run} */ run) => {
    const link = h("a", { href: `/runs/${run.id}`, title: nameOf(run) }, h("bdi", {}, nameOf(run)), h("span", { class: "soft" }, `#${run.id}`));
    return h("li", {}, link, classes.map((name) => h("span", { class: name })));
  };
  reconcile(list, runs, (run) => run.id, create, (row, run) => fill([...row.children].slice(1), run));
}

/** Show the runs that wait, the next one first. */
export function showQueue(/** @type {HTMLElement} */ list, /** @type {Run[]} */ runs) {
  fillRows(list, runs, ["soft", "soft"], ([resources, reason], run) => {
    setText(resources, resourcesOf(run));
    setText(reason, run.waiting || (run === runs[0] ? "starts next" : "waiting in the queue"));
    reason.title = reason.textContent;
  });
}

/** Show runs that have ended, each with its outcome, duration, goodput and curve. */
export function showResults(/** @type {HTMLElement} */ list, /** @type {Run[]} */ runs, /** @type {import("../runs/curves.js").Curves} */ curves) {
  curves.measure(runs);
  fillRows(list, runs, ["", "figure", "figure soft", ""], ([outcome, duration, goodput, curve], run) => {
    setOutcome(outcome, run);
    setText(duration, format.duration(elapsedSeconds(run, 0)));
    setText(goodput, typeof run.values.goodput === "number" ? `goodput ${format.percent(run.values.goodput)}` : "");
    curves.show(curve, run);
  });
}

/** Show figures in a list of descriptions. */
export function showPairs(/** @type {HTMLElement} */ list, /** @type {Pair[]} */ pairs) {
  const create = (/** @type {Pair} */ [title]) => h("div", {}, h("dt", {}, title), h("dd"));
  reconcile(list, pairs, ([title]) => title, create, (element, [, text, hint = "", isBad = false]) => {
    setText(element.lastElementChild, text);
    element.title = hint;
    element.lastElementChild.classList.toggle("bad-text", isBad);
  });
}
