// How far the run is: its metric against the goal, epochs, time, speed.

import { now } from "../api.js";
import { h, keep, setText } from "../dom.js";
import { count, duration, metric, number } from "../format.js";
import { isActive } from "../pieces.js";

/** @typedef {import("../records.js").Run} Run */

/** The section "Progress". */
export class Progress {
  /** @param {Record<string, any>} parts goal, metric, value, target, share, figures… */
  constructor(parts) {
    this.parts = parts;
    this.result = null;
  }

  /** Keep what the result route says, for the next `show`. */
  know(/** @type {Record<string, any>} */ result) {
    this.result = result;
  }

  /** Show how far a run is. */
  show(/** @type {Run} */ run) {
    this.#showGoal(run);
    keep(
      this.parts.figures,
      figuresOf(run, this.result, now()),
      ([name]) => name,
      createFigure,
      updateFigure,
    );
    const departures = this.result?.departures ?? [];
    this.parts.departures.hidden = departures.length === 0;
    keep(
      this.parts.departures,
      departures,
      (text) => text,
      (text) => h("li", {}, `Leaves the rules: ${text}`),
      () => {},
    );
  }

  #showGoal({ goal }) {
    const { parts, result } = this;
    parts.goal.hidden = !goal;
    if (!goal) return;
    const last = result?.last_value ?? null;
    const sign = goal.lower_is_better ? "or less" : "or more";
    setText(parts.metric, goal.metric);
    setText(parts.value, metric(goal.metric, last));
    setText(parts.target, `goal: ${metric(goal.metric, goal.value)} ${sign}`);
    parts.share.value = shareOf(goal, result);
    parts.share.textContent = `${Math.round(parts.share.value * 100)} %`;
    parts.goal.toggleAttribute("data-reached", Boolean(result?.time_to_accuracy));
  }
}

/**
 * @param {{ value: number, lower_is_better: boolean }} goal
 * @param {Record<string, any> | null} result
 * @returns {number} which share of the way to the goal is done, from 0 to 1: from 0 up, or from the
 *   first value down. Pure.
 */
export function shareOf(goal, result) {
  if (result?.time_to_accuracy) return 1;
  const best = result?.best_value;
  if (best == null) return 0;
  const isUpwards = !goal.lower_is_better && goal.value > 0;
  const first = isUpwards ? 0 : (result.curve?.values[0] ?? best);
  const share = (best - first) / (goal.value - first);
  return Number.isFinite(share) ? Math.min(1, Math.max(0, share)) : 0;
}

/** @returns {string[][]} the figures: name, value, and what is to be said of it. */
export function figuresOf(
  /** @type {any} */ run,
  /** @type {any} */ result,
  /** @type {number} */ moment,
) {
  const { goal } = run;
  const epochs = run.settings?.epochs;
  const figures = [
    [
      "Elapsed",
      duration(elapsed(run, moment)),
      isActive(run) ? "since the start" : "from start to end",
    ],
  ];
  if (goal) {
    figures.push(["Best value", metric(goal.metric, result?.best_value ?? null), ""]);
    figures.push(["Time to accuracy", ...timeToAccuracy(run, result)]);
  }
  if (result?.epochs != null) {
    figures.push(["Epochs", count(result.epochs), epochs ? `of ${count(epochs)} at most` : ""]);
  }
  figures.push([
    "Samples per second",
    number(result?.samples_per_second),
    "of training, all ranks",
  ]);
  figures.push(["Samples", count(result?.samples), ""]);
  if (run.max_restarts || run.attempt > 1) {
    figures.push(["Attempt", String(run.attempt), `of ${run.max_restarts + 1} at most`]);
  }
  if (result) {
    const rules =
      result.division === "open"
        ? "without rules"
        : result.departures.length
          ? "with departures"
          : "by the rules";
    figures.push(["Division", result.division, rules]);
  }
  return figures;
}

function timeToAccuracy(run, result) {
  const found = result?.time_to_accuracy;
  if (!found) return ["–", isActive(run) ? "not reached yet" : "not reached"];
  const training = found.training_seconds;
  if (training == null) return [duration(found.wall_seconds), "since the start"];
  return [duration(training), `of training; ${duration(found.wall_seconds)} since the start`];
}

function elapsed(run, moment) {
  if (!run.started_at) return null;
  const end = run.finished_at ? Date.parse(run.finished_at) : moment;
  return Math.max(0, Math.round((end - Date.parse(run.started_at)) / 100) / 10);
}

function createFigure([name]) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("span"), h("small")));
}

function updateFigure(element, [, value, hint]) {
  const [text, small] = element.lastElementChild.children;
  setText(text, value);
  setText(small, hint);
}
