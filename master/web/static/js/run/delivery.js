// Where the run's samples are, and whether one is missing.

import { h, keep, setText } from "../dom.js";
import { count } from "../format.js";
import { isActive } from "../pieces.js";

/** @typedef {import("../records.js").Run} Run */

/** The section "Delivery". */
export class Delivery {
  /** @param {HTMLElement} figures @param {HTMLElement} verdict */
  constructor(figures, verdict) {
    this.figures = figures;
    this.verdict = verdict;
  }

  /** Show what a run says of its samples. */
  show(/** @type {Run} */ run) {
    const { delivery } = run;
    const found = judge(run);
    setText(this.verdict, found.text);
    this.verdict.dataset.verdict = found.verdict;
    this.figures.hidden = !delivery;
    if (!delivery) return;
    const rows = [
      ["Recorded", delivery.recorded, "by the ranks"],
      ["In Prometheus", delivery.in_prometheus, "counted by a query"],
      ["Kept", delivery.kept, "in the database: what Prometheus cannot hold"],
    ];
    keep(
      this.figures,
      rows,
      ([name]) => name,
      createRow,
      (row, [, value]) => {
        setText(row.querySelector("b"), count(Number(value)));
      },
    );
  }
}

/** @returns {{ verdict: "good" | "bad" | "open", text: string }} whether samples are missing. */
export function judge(/** @type {Run} */ run) {
  const { delivery } = run;
  if (!delivery && isActive(run))
    return { verdict: "open", text: "Counted when the run has ended." };
  if (!delivery && run.waiting) return { verdict: "open", text: `Not yet counted: ${run.waiting}.` };
  if (!delivery)
    return { verdict: "open", text: "Never counted: the run ended before its ranks began." };
  const lost = delivery.recorded - delivery.in_prometheus - delivery.kept;
  if (lost > 0)
    return { verdict: "bad", text: `${count(lost)} of the recorded samples are missing.` };
  if (lost < 0)
    return { verdict: "bad", text: `${count(-lost)} samples more are stored than were recorded.` };
  if (!delivery.recorded)
    return { verdict: "open", text: "Nothing is missing: the run recorded nothing." };
  return { verdict: "good", text: "Nothing is missing: every recorded sample is stored." };
}

function createRow([name, , hint]) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("b"), h("small", {}, hint)));
}
