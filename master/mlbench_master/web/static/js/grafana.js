// Links to Grafana's dashboards, and panels of the run's dashboard on its page.

import { query } from "./api.js";
import { byId } from "./dom.js";
import * as theme from "./theme.js";

/** @import { Found } from "./compare/loader.js" */

// Pages with a matching dashboard.
const BOARDS = ["workers", "runs", "run", "compare"];
// The last scrapes and computed series of a run come some seconds after its end.
const AFTER_MS = 30_000;

/** @returns {string} the path of the dashboard that matches a page best. */
export function boardOf(/** @type {string} */ page) {
  return `/d/mlbench-${BOARDS.includes(page) ? page : "runs"}`;
}

/** @returns {string} the dashboard of comparisons, with these runs, their target and time. */
export function comparisonUrl(/** @type {string} */ base, /** @type {Found} */ { comparison, manifests }) {
  return base + boardOf("compare") + query({
    // At first the dashboard offers only a few of the newest runs.
    "var-newest": 100,
    "var-run_id": comparison.results.map((result) => result.run_id),
    // Not the metric chosen on the page, because the dashboard does not draw per-step metrics.
    "var-metric": comparison.results.find((result) => result.target)?.target.metric,
    ...rangeOf(manifests),
  });
}

/** Show links to the run's dashboard and its panels, and the panels of the section "Grafana", of the Grafana at `url`. */
export function showGrafana(/** @type {Run} */ run, /** @type {string} */ url) {
  byId("grafana").hidden = false;
  const board = { "var-run_id": run.id, ...(run.started_at && rangeOf([run])) };
  byId("board").href = url + boardOf("run") + query(board);
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-panel]"))) {
    link.href = `${url}/d/mlbench-run/mlbench-run${query({ ...board, viewPanel: link.dataset.panel })}`;
    link.hidden = false;
  }
  const mode = theme.isDark() ? "dark" : "light";
  for (const frame of /** @type {NodeListOf<HTMLIFrameElement>} */ (document.querySelectorAll("iframe[data-panel]"))) {
    const src = `${url}/d-solo/mlbench-run/mlbench-run${query({ ...board, theme: mode, panelId: frame.dataset.panel })}`;
    // Setting a frame's address loads it again.
    if (run.started_at && frame.getAttribute("src") !== src) frame.src = src;
  }
}

// The time of runs that have started, to the second, and beyond their last scrape.
function rangeOf(/** @type {Pick<Run, "created_at" | "started_at" | "finished_at">[]} */ runs) {
  const from = Math.min(...runs.map((run) => Date.parse(run.started_at ?? run.created_at)));
  const to = Math.max(...runs.map((run) => Date.parse(run.finished_at ?? "")));
  const end = Number.isNaN(to) ? { to: "now", refresh: "10s" } : { to: Math.ceil(to / 1000) * 1000 + AFTER_MS };
  return { from: Math.floor(from / 1000) * 1000, ...end };
}
