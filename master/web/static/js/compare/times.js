// Time to accuracy: a table with a row for each run, and bars of runs or of groups of them.

import { Chart } from "../chart.js";
import { h, keep, setText } from "../dom.js";
import { count, duration, isPercent } from "../format.js";
import { badge, setBadge } from "../pieces.js";
import { durations, numbers } from "./columns.js";
import { toBars } from "./graphs.js";
import { sample } from "./legend.js";
import { fillTable } from "./table.js";
import { labelOf } from "./view.js";

const TRAINING_HINT = "Training time until the goal was reached first, evaluation left out";
const WALL_HINT = "From the run's start until the goal was reached first";
const AFTER_HINT = "What the model of that time reaches: its last evaluation within it";
const RATE_HINT = "Of all workers, in training time";
const COST_HINT = "For how long workers were taken";

/** The section of that name. */
export class Times {
  constructor(
    /** @type {{ bars: HTMLElement, note: HTMLElement, table: HTMLTableElement }} */ parts,
  ) {
    this.parts = parts;
    this.chart = new Chart(parts.bars, "Time to accuracy of each run or group of runs");
  }

  /** Show a comparison. */
  async show(/** @type {object} */ comparison) {
    const { results } = comparison;
    fillTable(this.parts.table, columnsOf(results), results, (result) => result.run_id);
    const bars = toBars(comparison);
    setText(this.parts.note, bars.note);
    this.parts.bars.hidden = bars.rows.length === 0;
    if (bars.rows.length)
      await this.chart.drawBars(bars.rows, bars.parts, { x: bars.axis, suffix: " s" });
  }
}

function columnsOf(results) {
  const limits = new Set(
    results.map((one) => one.accuracy_after_time?.limit_seconds).filter(Boolean),
  );
  const after = limits.size === 1 ? `After ${duration([...limits][0])}` : "After time";
  return [
    { title: "Run", isHead: true, fill: (cell, one) => fillName(cell, one, results.indexOf(one)) },
    { title: "Workers", isFigure: true, text: (result) => count(result.num_workers) },
    { title: "State", fill: fillState },
    seconds("Time to accuracy", results, "training_seconds", TRAINING_HINT),
    seconds("Since the start", results, "wall_seconds", WALL_HINT),
    scores(after, results, (one) => one.accuracy_after_time?.value, AFTER_HINT),
    scores("Best", results, (one) => one.best_value),
    scores("Last", results, (one) => one.last_value),
    figures("Samples/s", results, (one) => one.samples_per_second, RATE_HINT),
    { title: "Epochs", isFigure: true, text: (one) => count(one.epochs) },
    figures("Worker-seconds", results, (one) => one.cost?.worker_seconds, COST_HINT),
  ];
}

function seconds(title, results, clock, hint) {
  const write = durations(results.map((one) => one.time_to_accuracy?.[clock]));
  const text = ({ target, time_to_accuracy: reached }) =>
    target && !reached ? "not reached" : write(reached?.[clock]);
  return { title, hint, isFigure: true, text };
}

function figures(title, results, valueOf, hint) {
  const write = numbers(results.map(valueOf));
  return { title, hint, isFigure: true, text: (result) => write(valueOf(result)) };
}

function scores(title, results, valueOf, hint) {
  const write = numbers(results.map(valueOf));
  const unit = (result) => (result.target && isPercent(result.target.metric) ? " %" : "");
  const text = (result) => (valueOf(result) == null ? "–" : write(valueOf(result)) + unit(result));
  return { title, hint, isFigure: true, text };
}

function fillName(cell, result, i) {
  const make = () =>
    h("a", { href: `/runs/${result.run_id}`, class: "run-link" }, sample(i), h("span"));
  const keyOf = () => `${result.run_id} ${i}`;
  keep(cell, [result], keyOf, make, (link) => setText(link.lastElementChild, labelOf(result)));
}

function fillState(cell, result) {
  if (cell.firstElementChild) setBadge(cell.firstElementChild, result.state);
  else cell.append(badge(result.state));
}
