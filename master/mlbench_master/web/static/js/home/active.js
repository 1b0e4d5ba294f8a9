// An active run on the home page: its progress, live curves, slowest rank, and when it will reach its target.

import { get, now, post } from "../api.js";
import { Chart } from "../chart.js";
import { byId, h, setText } from "../dom.js";
import * as format from "../format.js";
import { LOSSES, elapsedSeconds, outcomeOf } from "../records.js";
import { urlOf } from "../root.js";
import { unitOf } from "../run/curves.js";
import { topOf } from "../runs/curves.js";
import { byMetric, longest, mean, medianOf } from "../series.js";
import { confirm, setBadge, showPairs } from "../ui.js";

/** @typedef {{ seconds: number[], values: number[] }} Curve */
/** @typedef {{ seconds: number, way: Curve }} Forecast */

const LOSS_POINTS = 120;
const SLOWEST = "Its own work per step, as a multiple of the median of the other ranks";
const TRAINING_LOSSES = LOSSES.filter((name) => !/^(val|valid|eval|test)/.test(name));
const MIN_POINTS = 5;
// The start of training says little about its end.
const LEFT_OUT = 0.2;
// Time constants that are tried, as multiples of the time so far.
const CONSTANTS = Array.from({ length: 48 }, (_, i) => 0.05 * 1.14 ** i);
// A target that is farther away cannot be foreseen.
const MAX_TIMES = 20;
const WAY_POINTS = 40;

/**
 * @returns {{ rank: number, ratio: number } | null} the rank with the most work of its own in each step, as a
 *   multiple of the median of the other ranks; null with fewer than two measured ranks
 */
export function slowestRank(/** @type {Result["ranks"]} */ ranks) {
  const secondsOf = (rank) => rank.compute_seconds ?? rank.step_seconds;
  const [slowest, ...others] = ranks.filter((rank) => secondsOf(rank) > 0).sort((a, b) => secondsOf(b) - secondsOf(a));
  if (!others.length) return null;
  return { rank: slowest.rank, ratio: secondsOf(slowest) / medianOf(others.map(secondsOf)) };
}

/**
 * @returns {{ left: number, until: string } | null} the estimated seconds until a run reaches its target, or else
 *   its last epoch or its deadline, `elapsed` seconds after its start
 */
export function timeLeft(/** @type {Run} */ run, result, /** @type {Forecast | null} */ ahead, /** @type {number} */ elapsed) {
  if (ahead) return { left: Math.max(0, ahead.seconds - elapsed), until: "target" };
  const [epoch, epochs] = [result?.epochs ?? 0, Number(run.settings?.epochs)];
  // Half of the epoch that was started last is assumed to be done.
  if (epoch > 1 && epochs >= epoch) return { left: (elapsed * (epochs - epoch + 0.5)) / (epoch - 0.5), until: "last epoch" };
  return run.deadline_seconds ? { left: Math.max(0, run.deadline_seconds - elapsed), until: "deadline" } : null;
}

/** The card of an active run. */
export class ActiveRun {
  #chart = new Chart(h("div"), "Progress", { hasFiles: false });
  /** @type {{ result: Result | null, loss: Curve | null, problem: string }} */
  #data = { result: null, loss: null, problem: "" };

  constructor(/** @type {number} */ id) {
    this.id = id;
    this.element = byId("active-card").content.firstElementChild.cloneNode(true);
    this.element.setAttribute("aria-label", `Run ${id}`);
    this.#part("h2 a").href = urlOf(`/runs/${id}`);
    this.#part(".button").href = urlOf(`/runs/${id}?tab=logs`);
    this.#part("button").addEventListener("click", () => this.#stop());
    this.#part("progress").after(this.#chart.element);
  }

  /** @returns {any} */
  #part(/** @type {string} */ selector) {
    return this.element.querySelector(selector);
  }

  /** Fetch the result so far and the loss. */
  async refresh(/** @type {Run} */ run) {
    const metrics = TRAINING_LOSSES.map((name) => `${name} @ 0`);
    const params = { metric_type: "run", metric_filter: metrics, summarize: LOSS_POINTS, added: false };
    try {
      const [result, series] = await Promise.all([get(`/api/runs/${this.id}/result/`), get(`/api/metrics/${this.id}/`, params)]);
      this.#data = { result, loss: lossOf(run, series), problem: "" };
    } catch (error) {
      this.#data = { result: null, loss: null, problem: `Figures not known: ${error.message}` };
    }
  }

  show(/** @type {Run} */ run, /** @type {RunCurve | undefined} */ curve) {
    const { result, loss, problem } = this.#data;
    const elapsed = elapsedSeconds(run, now()) ?? 0;
    setText(this.#part("bdi"), run.title);
    setText(this.#part("h2 .soft"), `#${run.id}`);
    const [state, text, title] = outcomeOf(run, null);
    const [epoch, epochs] = [result?.epochs, Number(run.settings?.epochs)];
    const hasEpoch = state === "started" && epoch && epochs;
    setBadge(this.#part(".badge"), state, hasEpoch ? `${text} · epoch ${epoch} of ${format.count(epochs)}` : text, title);
    this.#part("button").disabled = run.stop_requested;
    const ahead = curve && run.target && !run.target_reached_at ? forecast(curve, run.target) : null;
    const left = timeLeft(run, result, ahead, elapsed);
    this.#showFigures(run, elapsed, left, curve?.values.at(-1) ?? result?.last_value);
    this.#part("progress").hidden = !left || elapsed === 0;
    this.#part("progress").value = left && elapsed ? elapsed / (elapsed + left.left) : 0;
    const hasCurve = Boolean(curve || loss);
    this.#chart.element.hidden = !hasCurve;
    this.#part("[data-part=empty]").hidden = hasCurve;
    if (hasCurve) this.#draw(run.target, curve, ahead?.way);
    setText(this.#part(".problem"), problem);
  }

  #showFigures(/** @type {Run} */ run, elapsed, left, value = null) {
    const { target } = run;
    const { result, loss } = this.#data;
    const slowest = slowestRank(result?.ranks ?? []);
    const isUnforeseen = target && !left && !run.target_reached_at;
    const [rate, share] = [result?.samples_per_second, result?.goodput?.share];
    const pairs = [
      target && [format.metricTitle(target.metric), format.metric(target.metric, value && Number(value.toPrecision(3))), target.metric],
      target && ["Target", format.metric(target.metric, target.value), format.targetText(target)],
      loss && ["Training loss", format.number(loss.values.at(-1), 3), "Of rank 0"],
      ["Elapsed", format.duration(elapsed)],
      left && ["Time left, at this pace", roughly(left.left), `Until the ${left.until}`],
      isUnforeseen && ["Time left", "not known", "The curve does not yet lead to the target"],
      rate != null && [`${format.samples(run)}/s`, format.number(rate), "All ranks, evaluation excluded"],
      share != null && ["Goodput", format.percent(share), "Share of worker time that advanced the final model"],
      slowest && ["Slowest rank", `${slowest.rank} · ${slowest.ratio.toFixed(2)}×`, SLOWEST, result.stragglers?.named != null],
    ];
    showPairs(this.#part("dl"), pairs.filter(Boolean));
  }

  // The curves over the time since the start of the run; the loss has a scale of its own.
  #draw(/** @type {Run["target"]} */ target, curve, way) {
    const { loss } = this.#data;
    const metric = target?.metric ?? "";
    const unit = unitOf(Math.max(...[curve, way, loss].map((line) => line?.seconds.at(-1) ?? 0)));
    const toLine = (line, name, colour, style = {}) =>
      line && { name, x: line.seconds.map((at) => at / unit.seconds), y: line.values, colour, ...style };
    const aim = target && `target ${format.metric(metric, target.value)}`;
    const range = loss && [loss.values[0], loss.values.at(-1)].map((value) => format.number(value, 3)).join(" to ");
    const lines = [
      toLine(curve, format.metricTitle(metric), "--series-0"),
      toLine(way, "Forecast", "--series-0", { dash: "dot" }),
      toLine(loss, `Training loss, ${range}`, "--series-4", { own: true }),
    ].filter(Boolean);
    this.#chart.draw(lines, {
      x: `Time (${unit.name})`,
      stacked: "last",
      ySuffix: format.isPercent(metric) ? " %" : "",
      marks: target ? [{ y: target.value, text: aim, colour: "--good" }] : [],
      yRange: target ? [0, topOf(target)] : undefined,
      label: [...lines.map((line) => line.name), aim].filter(Boolean).join(", "),
    });
  }

  async #stop() {
    const text = "Its ranks are stopped. What it has recorded so far is kept.";
    if (!(await confirm(`Stop run ${this.id}?`, text, "Stop"))) return;
    await post(`/api/runs/${this.id}/stop/`).catch((error) => setText(this.#part(".problem"), error.message));
  }
}

// The training loss of rank 0 that has the most points, over the seconds since the start.
function lossOf(/** @type {Run} */ run, series) {
  const losses = [...byMetric(series).values()].flatMap((ranks) => [...ranks.values()]);
  if (!losses.length || !run.started_at) return null;
  const { times, values } = longest(losses);
  const points = times.map((time, i) => [(time - Date.parse(run.started_at)) / 1000, values[i]]);
  const known = points.filter(([at, value]) => at >= 0 && Number.isFinite(value));
  return known.length > 1 ? { seconds: known.map(([at]) => at), values: known.map(([, value]) => value) } : null;
}

/**
 * Fit an exponential approach, `a + b·exp(−t / c)`, to the curve of the target's metric. Recent points weigh more.
 * @returns {Forecast | null} when the curve reaches the target, in seconds since the start of the run, and its way
 *   there; null if it does not seem to reach the target
 */
export function forecast(/** @type {Curve} */ { seconds, values }, /** @type {Target} */ { value: aim, lower_is_better: isLower }) {
  const first = Math.floor(LEFT_OUT * seconds.length);
  const [times, points] = [seconds.slice(first), values.slice(first)];
  const [last, current] = [times.at(-1), points.at(-1)];
  if (times.length < MIN_POINTS || !(last > 0)) return null;
  const fits = CONSTANTS.map((factor) => fit(times, points, factor * last));
  const { a, b, c } = fits.reduce((best, other) => (other.error < best.error ? other : best));
  if (isLower ? !(b > 0 && a < aim) : !(b < 0 && a > aim)) return null;
  const reached = Math.max(last, c * Math.log(b / (aim - a)));
  if (reached > MAX_TIMES * last) return null;
  const at = (/** @type {number} */ time) => a + b * Math.exp(-time / c);
  // The way leaves the curve at its last point, and comes close to the fit within a time constant.
  const offset = current - at(last);
  const steps = Array.from({ length: WAY_POINTS }, (_, i) => last + ((reached - last) * i) / (WAY_POINTS - 1));
  const bent = steps.map((time) => at(time) + offset * (1 - (time - last) / (reached - last || 1)));
  return { seconds: reached, way: { seconds: steps, values: bent } };
}

// Weighted least squares for a and b with a given c.
function fit(/** @type {number[]} */ times, /** @type {number[]} */ values, /** @type {number} */ c) {
  const weighted = (/** @type {number[]} */ column) => mean(column.map((value, i) => (2 * (i + 1) * value) / (column.length + 1)));
  const decay = times.map((time) => Math.exp(-time / c));
  const [x, y] = [weighted(decay), weighted(values)];
  const b = weighted(decay.map((at, i) => (at - x) * (values[i] - y))) / weighted(decay.map((at) => (at - x) ** 2));
  const a = y - b * x;
  return { a, b, c, error: weighted(values.map((value, i) => (value - a - b * decay[i]) ** 2)) };
}

/** @returns {string} an estimated duration, such as `≈ 40 s` or `≈ 6.2 min`. */
export function roughly(/** @type {number} */ seconds) {
  const [size, unit] = format.UNITS.find(([length]) => seconds >= 2 * length) ?? [0, ""];
  return unit ? `≈ ${format.number(seconds / size, 2)} ${unit}` : "any moment";
}
