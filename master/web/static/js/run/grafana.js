// Panels of Grafana's dashboard of the run, where there is a Grafana.

import { query } from "../api.js";
import { h } from "../dom.js";
import * as theme from "../theme.js";

/** @typedef {import("../records.js").Run} Run */

const BOARD = "mlbench-run";
const PANELS = [
  { id: 262074, title: "Train loss by time" },
  { id: 651834, title: "Accuracy by time" },
  { id: 994412, title: "Step time by rank" },
  { id: 161154, title: "Where the time goes" },
  { id: 24518, title: "CPU cores by worker" },
  { id: 478485, title: "Memory by worker" },
];
// What is scraped and computed of a run comes a few seconds after it.
const AFTER_MS = 30_000;

/** The section "Grafana". */
export class Grafana {
  /** @param {HTMLElement} section @param {HTMLAnchorElement} link @param {HTMLElement} panels */
  constructor(section, link, panels) {
    this.section = section;
    this.link = link;
    this.panels = panels;
    this.shown = "";
    theme.onChange(() => this.#embed());
  }

  /** Show the run's dashboard and its panels, of the Grafana at `url`. */
  show(/** @type {Run} */ run, /** @type {string} */ url) {
    this.run = run;
    this.url = url;
    this.section.hidden = false;
    const range = run.started_at ? rangeOf(run) : {};
    this.link.href = `${this.url}/d/${BOARD}${query({ "var-run_id": run.id, ...range })}`;
    this.#embed();
  }

  #embed() {
    const { run } = this;
    if (!run?.started_at) return;
    const mode = theme.isDark() ? "dark" : "light";
    const shown = `${mode} ${run.finished_at}`;
    // A frame that is given its address again loads again.
    if (shown === this.shown) return;
    this.shown = shown;
    this.panels.replaceChildren(
      ...PANELS.map(({ id, title }) => {
        const params = { "var-run_id": run.id, ...rangeOf(run), theme: mode, panelId: id };
        return h("iframe", {
          src: `${this.url}/d-solo/${BOARD}/${BOARD}${query(params)}`,
          title: `Grafana: ${title}`,
          loading: "lazy",
        });
      }),
    );
  }
}

/** @returns {{ from: number, to: number | string, refresh?: string }} the run's time. Pure. */
export function rangeOf(/** @type {{ started_at: string, finished_at: string | null }} */ run) {
  const from = Math.floor(Date.parse(run.started_at) / 1000) * 1000;
  if (!run.finished_at) return { from, to: "now", refresh: "5s" };
  return { from, to: Math.ceil(Date.parse(run.finished_at) / 1000) * 1000 + AFTER_MS };
}
