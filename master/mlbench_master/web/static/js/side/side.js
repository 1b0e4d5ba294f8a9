// The pane beside the list of runs: charts of the runs that are shown.

/** @import { Run } from "../records.js" */

/** @typedef {{ run: Run, colour: string, dash: "solid" | "dash" | "dot", hidden: boolean }} ShownRun */

export class Side {
  constructor(/** @type {HTMLElement} */ place) {
    this.place = place;
  }

  /** Draw the charts of these runs, in the order of their colours. */
  show(/** @type {ShownRun[]} */ runs) {
    this.place.dataset.runs = runs.map(({ run }) => run.id).join(",");
  }
}
