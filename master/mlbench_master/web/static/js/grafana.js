// Links to Grafana's dashboards, and panels of the run's dashboard on its page.

import { query } from "./api.js";
import { byId, h } from "./dom.js";
import * as theme from "./theme.js";

/** @import { Run } from "./records.js" */
/** @import { Found } from "./compare/loader.js" */

// Pages with a matching dashboard.
const BOARDS = ["workers", "runs", "run", "compare"];
// The panels of the run's dashboard that its page links to.
const PANEL_IDS = {
  loss: 36727,
  accuracy: 533732,
  throughput: 829783,
  phases: 886318,
  ranks: 644754,
  steps: 821239,
  cpu: 461131,
};
const PANELS = [
  { id: 36727, title: "Loss by time" },
  { id: 533732, title: "Accuracy or perplexity by time" },
  { id: 179996, title: "Straggler ratio" },
  { id: 886318, title: "Time breakdown" },
  { id: 461131, title: "CPU" },
  { id: 397379, title: "Memory" },
];
// The last scrapes and computed series of a run come some seconds after its end.
const AFTER_MS = 30_000;

/** @returns {string} the path of the dashboard that matches a page best. */
export function boardOf(/** @type {string} */ page) {
  return `/d/mlbench-${BOARDS.includes(page) ? page : "runs"}`;
}

/** @returns {string} the dashboard of comparisons, with these runs, their target and time. */
export function comparisonUrl(/** @type {string} */ base, /** @type {Found} */ answer) {
  const { comparison, manifests } = answer;
  const isOver = manifests.every((manifest) => manifest.finished_at);
  const starts = manifests.map((manifest) => Date.parse(manifest.started_at ?? manifest.created_at));
  const ends = manifests.map((manifest) => Date.parse(manifest.finished_at));
  const params = {
    // At first the dashboard offers only a few of the newest runs.
    "var-newest": 100,
    "var-run_id": comparison.results.map((result) => result.run_id),
    // Not the metric chosen on the page, because the dashboard does not draw per-step metrics.
    "var-metric": comparison.results.find((result) => result.target)?.target.metric,
    from: Math.min(...starts),
    to: isOver ? Math.max(...ends) : "now",
  };
  return base + boardOf("compare") + query(params);
}

/** The section "Grafana" of a run's page. */
export class Grafana {
  #shown = "";

  constructor() {
    theme.onChange(() => this.#embed());
  }

  /** Show a link to the run's dashboard, and its panels, of the Grafana at `url`. */
  show(/** @type {Run} */ run, /** @type {string} */ url) {
    this.run = run;
    this.url = url;
    byId("grafana").hidden = false;
    const range = run.started_at ? rangeOf(run) : {};
    const board = { "var-run_id": run.id, ...range };
    byId("board").href = url + boardOf("run") + query(board);
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-panel]"))) {
      const viewPanel = PANEL_IDS[link.dataset.panel];
      link.href = `${url}/d/mlbench-run/mlbench-run${query({ ...board, viewPanel })}`;
      link.hidden = false;
    }
    this.#embed();
  }

  #embed() {
    const { run, url } = this;
    if (!run?.started_at) return;
    const mode = theme.isDark() ? "dark" : "light";
    const shown = `${mode} ${run.finished_at}`;
    // Setting a frame's address loads it again.
    if (shown === this.#shown) return;
    this.#shown = shown;
    const frames = PANELS.map(({ id, title }) => {
      const params = { "var-run_id": run.id, ...rangeOf(run), theme: mode, panelId: id };
      const src = `${url}/d-solo/mlbench-run/mlbench-run${query(params)}`;
      return h("iframe", { src, title: `Grafana: ${title}`, loading: "lazy" });
    });
    byId("panels").replaceChildren(...frames);
  }
}

function rangeOf(/** @type {Run} */ run) {
  const from = Math.floor(Date.parse(run.started_at) / 1000) * 1000;
  if (!run.finished_at) return { from, to: "now", refresh: "10s" };
  return { from, to: Math.ceil(Date.parse(run.finished_at) / 1000) * 1000 + AFTER_MS };
}
