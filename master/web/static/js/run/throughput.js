// The chart of how many samples a second all ranks train together.

import { now } from "../api.js";
import { Chart } from "../chart.js";
import { setText } from "../dom.js";
import { timeAxis } from "./curves.js";
import { throughput } from "./rates.js";
import { Recorded } from "./recorded.js";

/** @typedef {import("../records.js").Run} Run */

const POINTS_OF_ALL = 20_000;
const MOST_POINTS = 1000;
const NOTHING = "The run recorded no samples, or too few to tell how fast it was.";

/** The section "Throughput". */
export class Throughput {
  /**
   * @param {HTMLElement} place of the chart
   * @param {HTMLElement} empty what is said where there is nothing to draw
   * @param {number} runId
   */
  constructor(place, empty, runId) {
    this.place = place;
    this.empty = empty;
    this.recorded = new Recorded(runId, MOST_POINTS);
    this.chart = new Chart(place, "Samples per second over the run");
  }

  /** Fetch the totals, and draw their rate. */
  async refresh(/** @type {Run} */ run, /** @type {boolean} */ isWhole) {
    const points = Math.floor(POINTS_OF_ALL / run.num_workers);
    this.recorded.points = Math.max(50, Math.min(MOST_POINTS, points));
    await this.recorded.refresh(["samples", "train_seconds"], isWhole);
    const { series } = this.recorded;
    const found = throughput(
      series.get("samples") ?? new Map(),
      series.get("train_seconds") ?? new Map(),
    );
    const hasAny = found.times.length > 0;
    this.place.hidden = !hasAny;
    this.empty.hidden = hasAny;
    setText(this.empty, run.finished_at ? NOTHING : "Drawn from the end of the first epoch on.");
    if (!hasAny) return;
    const axis = timeAxis(run.started_at, run.finished_at ? Date.parse(run.finished_at) : now());
    const line = { name: "samples/s", x: axis.place(found.times), y: found.values, step: true };
    await this.chart.draw([line], { x: axis.title, y: "Samples per second", fromZero: true });
  }
}
