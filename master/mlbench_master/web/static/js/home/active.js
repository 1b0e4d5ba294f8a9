// An active run on the home page: its progress, live curves and slowest rank.

import { get, now, post } from "../api.js";
import { h, reconcile, setNotice, setText } from "../dom.js";
import * as format from "../format.js";
import { outcomeChip } from "../outcome.js";
import { LOSSES, elapsedSeconds, nameOf } from "../records.js";
import { byMetric } from "../series.js";
import { badge, confirm, setBadge } from "../ui.js";
import { ActiveChart } from "./chart.js";
import { forecast, roughly } from "./forecast.js";

/**
 * @import { Result, Run } from "../records.js"
 * @import { Curve, RunCurve } from "./chart.js"
 * @import { Forecast } from "./forecast.js"
 */

const LOSS_POINTS = 120;
const TRAINING_LOSSES = LOSSES.filter((name) => !/^(val|valid|eval|test)/.test(name));

/**
 * Find the rank with the most work of its own in each step.
 * @param {Result["ranks"]} ranks
 * @returns {{ rank: number, ratio: number } | null} its time per step as a multiple of the median of
 *   the other ranks; null with fewer than two measured ranks
 */
export function slowestRank(ranks) {
  const times = ranks
    .map(({ rank, compute_seconds: compute, step_seconds: step }) => ({ rank, seconds: compute ?? step }))
    .filter(({ seconds }) => seconds > 0)
    .sort((a, b) => b.seconds - a.seconds);
  if (times.length < 2) return null;
  const [slowest, ...others] = times;
  const middle = (others.length - 1) / 2;
  const median = (others[Math.floor(middle)].seconds + others[Math.ceil(middle)].seconds) / 2;
  return { rank: slowest.rank, ratio: slowest.seconds / median };
}

/**
 * Estimate when a run ends: at its target, after its last epoch, or at its deadline.
 * @param {Run} run
 * @param {Result | null} result
 * @param {Forecast | null} ahead
 * @param {number} elapsed seconds since the start
 * @returns {{ left: number, until: string } | null} the remaining seconds, and until what
 */
export function timeLeft(run, result, ahead, elapsed) {
  if (ahead) return { left: Math.max(0, ahead.seconds - elapsed), until: "target" };
  const [epoch, epochs] = [result?.epochs ?? 0, Number(run.settings?.epochs)];
  // Half of the epoch that was started last is assumed to be done.
  if (epoch > 1 && epochs >= epoch) return { left: (elapsed * (epochs - epoch + 0.5)) / (epoch - 0.5), until: "last epoch" };
  return run.deadline_seconds ? { left: Math.max(0, run.deadline_seconds - elapsed), until: "deadline" } : null;
}

/** The card of an active run. */
export class ActiveRun {
  #chart = new ActiveChart();
  #name = h("a", {}, h("bdi"), h("span", { class: "soft" }));
  #chip = badge("STARTED");
  #figures = h("dl", { class: "active-figures" });
  #progress = /** @type {HTMLProgressElement} */ (h("progress", { max: 1, "aria-label": "Progress" }));
  #stop = h("button", { type: "button" }, "Stop");
  #noCurve = h("p", { class: "soft" });
  #problem = h("p", { class: "problem", role: "alert" });
  /** @type {Result | null} */
  #result = null;
  /** @type {Curve | null} */
  #loss = null;
  #fetchProblem = "";

  /** @param {number} id */
  constructor(id) {
    this.path = `/runs/${id}`;
    this.id = id;
    this.#name.setAttribute("href", this.path);
    this.#stop.addEventListener("click", () => this.#stopRun());
    const buttons = h("div", { class: "buttons" }, h("a", { class: "button", href: `${this.path}?tab=logs` }, "Logs"), this.#stop);
    this.element = h(
      "section",
      { class: "card active", "aria-label": `Run ${id}` },
      h("div", { class: "active-head" }, h("h2", { class: "active-name" }, this.#name), this.#chip, buttons),
      this.#figures,
      this.#progress,
      this.#chart.element,
      this.#chart.key,
      this.#noCurve,
      this.#problem,
    );
  }

  /** Fetch the result so far and the loss. */
  async refresh(/** @type {Run} */ run) {
    const metrics = TRAINING_LOSSES.map((name) => `${name} @ 0`);
    const params = { metric_type: "run", metric_filter: metrics, summarize: LOSS_POINTS, added: false };
    try {
      const [result, series] = await Promise.all([get(`/api/runs/${this.id}/result/`), get(`/api/metrics/${this.id}/`, params)]);
      this.#result = result;
      this.#loss = lossOf(run, series);
      this.#fetchProblem = "";
    } catch (error) {
      this.#result = this.#loss = null;
      this.#fetchProblem = `Figures not known: ${error.message}`;
    }
  }

  show(/** @type {Run} */ run, /** @type {RunCurve | undefined} */ curve) {
    const { target } = run;
    const elapsed = elapsedSeconds(run, now()) ?? 0;
    const [name, number] = this.#name.children;
    setText(name, nameOf(run));
    setText(number, `#${run.id}`);
    const [epoch, epochs] = [this.#result?.epochs, Number(run.settings?.epochs)];
    const { state, text, title } = outcomeChip(run, null);
    setBadge(this.#chip, state);
    setText(this.#chip, state === "started" && epoch && epochs ? `${text} · epoch ${epoch} of ${format.count(epochs)}` : text);
    this.#chip.title = title;
    this.#stop.toggleAttribute("disabled", run.stop_requested);
    const ahead = curve && target && !run.target_reached_at ? forecast(curve, target) : null;
    const left = timeLeft(run, this.#result, ahead, elapsed);
    this.#showFigures(run, left, elapsed, curve);
    const isOver = left !== null && elapsed > 0;
    this.#progress.hidden = !isOver;
    if (isOver) this.#progress.value = elapsed / (elapsed + left.left);
    const metric = target?.metric ?? "";
    const hasCurve = Boolean(curve || this.#loss);
    this.#chart.element.hidden = this.#chart.key.hidden = !hasCurve;
    if (hasCurve) this.#chart.show({ target, metric, value: curve ?? null, way: ahead?.way ?? null, loss: this.#loss });
    setNotice(this.#noCurve, hasCurve ? "" : "No loss and no accuracy yet.");
    setText(this.#problem, this.#fetchProblem);
  }

  #showFigures(/** @type {Run} */ run, left, elapsed, /** @type {RunCurve | undefined} */ curve) {
    const { target } = run;
    const result = this.#result;
    const slowest = slowestRank(result?.ranks ?? []);
    const value = curve?.values.at(-1) ?? result?.last_value ?? null;
    const isStraggler = result?.stragglers?.named != null;
    const loss = this.#loss?.values.at(-1);
    const figures = [
      target && [format.metricTitle(target.metric), format.metric(target.metric, value === null ? null : round(value)), target.metric],
      target && ["Target", format.metric(target.metric, target.value), format.targetText(target)],
      loss !== undefined && ["Training loss", format.number(loss, 3), "Of rank 0"],
      ["Elapsed", format.duration(elapsed), ""],
      left ? ["Time left, at this pace", roughly(left.left), `Until the ${left.until}`] : target && !run.target_reached_at && ["Time left", "not known", "The curve does not yet lead to the target"],
      result?.samples_per_second != null && [`${format.samples(run)}/s`, format.number(result.samples_per_second), "All ranks, evaluation excluded"],
      result?.goodput?.share != null && ["Goodput", format.percent(result.goodput.share), "Share of worker time that advanced the final model"],
      slowest && ["Slowest rank", `${slowest.rank} · ${slowest.ratio.toFixed(2)}×`, "Its own work per step, as a multiple of the median of the other ranks", isStraggler],
    ].filter(Boolean);
    const create = (/** @type {unknown[]} */ [name]) => h("div", {}, h("dt", {}, name), h("dd"));
    reconcile(this.#figures, figures, ([name]) => name, create, (element, [, text, hint, isBad]) => {
      setText(element.lastElementChild, text);
      element.title = String(hint);
      element.toggleAttribute("data-bad", Boolean(isBad));
    });
  }

  async #stopRun() {
    const text = "Its ranks are stopped. What it has recorded so far is kept.";
    if (!(await confirm(`Stop run ${this.id}?`, text, "Stop"))) return;
    try {
      await post(`/api/runs/${this.id}/stop/`);
      this.#stop.toggleAttribute("disabled", true);
    } catch (error) {
      setText(this.#problem, error.message);
    }
  }
}

function round(/** @type {number} */ value) {
  return Number(value.toPrecision(3));
}

function lossOf(/** @type {Run} */ run, series) {
  const [ranks] = [...byMetric(series).values()].sort((a, b) => sizeOf(b) - sizeOf(a));
  const [loss] = ranks?.values() ?? [];
  if (!loss || !run.started_at) return null;
  const points = loss.times.map((time, i) => [(time - Date.parse(run.started_at)) / 1000, loss.values[i]]);
  const known = points.filter(([at, value]) => at >= 0 && Number.isFinite(value));
  return known.length > 1 ? { seconds: known.map(([at]) => at), values: known.map(([, value]) => value) } : null;
}

function sizeOf(/** @type {Map<number | null, import("../series.js").Series>} */ ranks) {
  return Math.max(...[...ranks.values()].map(({ times }) => times.length));
}
