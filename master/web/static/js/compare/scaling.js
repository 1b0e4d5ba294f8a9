// Speed-up, efficiency and phases of groups of runs: two charts and a table.

import { Chart } from "../chart.js";
import { setText } from "../dom.js";
import { percent } from "../format.js";
import { durations, numbers } from "./columns.js";
import { toPhases, toSpeedups } from "./graphs.js";
import { fillTable } from "./table.js";

// Where there are that many times more workers, each doubling takes the same distance.
const WIDE_RANGE = 8;
const PHASES_NOTE = "The mean over ranks and runs; evaluation is no training time.";
const MEAN_HINT =
  "Time to accuracy in training time; of three or more without the fastest and the slowest run";
const EFFICIENCY_HINT = "The speed-up by how many times more workers it takes: 100 % is perfect";

/** The section of that name. */
export class Scaling {
  /**
   * @param {{ speedup: HTMLElement, speedupNote: HTMLElement, phases: HTMLElement,
   *   phasesNote: HTMLElement, table: HTMLTableElement }} parts
   */
  constructor(parts) {
    this.parts = parts;
    this.speedup = new Chart(parts.speedup, "Speed-up of each group over its number of workers");
    this.phases = new Chart(parts.phases, "Seconds of each group in each phase");
  }

  /** Show the groups of a comparison. */
  async show(/** @type {object[]} */ groups) {
    fillTable(this.parts.table, columnsOf(groups), groups, (group) => group.label);
    await Promise.all([this.#showSpeedups(groups), this.#showPhases(groups)]);
  }

  async #showSpeedups(groups) {
    const lines = toSpeedups(groups);
    this.parts.speedup.hidden = lines.length === 0;
    setText(this.parts.speedupNote, speedupNote(groups, lines));
    if (lines.length) await this.speedup.draw(lines, speedupAxes(groups));
  }

  async #showPhases(groups) {
    const phases = toPhases(groups);
    const labels = groups.map((group) => group.label);
    this.parts.phases.hidden = phases.length === 0;
    setText(this.parts.phasesNote, phases.length ? PHASES_NOTE : "No run has recorded its phases.");
    if (phases.length) await this.phases.drawBars(labels, phases, { x: "time [s]", suffix: " s" });
  }
}

function speedupAxes(groups) {
  const workers = groups.map((group) => group.num_workers);
  const isWide = workers.at(-1) > WIDE_RANGE * workers[0];
  const type = /** @type {"log" | "linear"} */ (isWide ? "log" : "linear");
  return {
    x: "workers",
    y: "speed-up",
    ySuffix: "×",
    xType: type,
    yType: type,
    xTicks: workers,
    fromZero: true,
  };
}

function speedupNote(groups, lines) {
  if (lines.length) return `How many times as fast as ${groups[0].label}.`;
  if (groups.length < 2) return "All of these runs are of one kind: add some with more workers.";
  if (new Set(groups.map((group) => group.num_workers)).size < groups.length) {
    return "The groups differ in more than their workers: the table has the speed-up of each.";
  }
  return "No two groups have figures that can be set against each other.";
}

function columnsOf(groups) {
  const write = durations(groups.map((group) => group.training_seconds_to_accuracy?.maximum));
  const time = (title, name, hint) => ({
    title,
    hint,
    isFigure: true,
    text: (group) => write(group.training_seconds_to_accuracy?.[name] ?? null),
  });
  const rate = numbers(groups.map((group) => group.samples_per_second?.mean));
  return [
    { title: "Group", isHead: true, text: (group) => group.label },
    { title: "Runs", text: (group) => group.run_ids.join(", ") },
    {
      title: "Reached",
      isFigure: true,
      text: (group) => `${group.reached} of ${group.run_ids.length}`,
    },
    time("Mean", "mean", MEAN_HINT),
    time("Median", "median"),
    time("Fastest", "minimum"),
    time("Slowest", "maximum"),
    { title: "Speed-up", isFigure: true, text: (group) => times(group.speedup) },
    share("Efficiency", (group) => group.efficiency, EFFICIENCY_HINT),
    { title: "Samples/s", isFigure: true, text: (group) => rate(group.samples_per_second?.mean) },
    {
      title: "Throughput speed-up",
      isFigure: true,
      text: (group) => times(group.throughput_speedup),
    },
    share("Communication", (group) => group.communication_share?.mean, "Of the training time"),
  ];
}

function share(title, valueOf, hint) {
  return { title, hint, isFigure: true, text: (group) => percent(valueOf(group)) };
}

function times(value) {
  return value == null ? "–" : `${value.toFixed(2)}×`;
}
