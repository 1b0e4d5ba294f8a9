// The address of the same comparison in Grafana. Pure.

/** @returns {string} the dashboard of comparisons, with these runs, their metric and their time. */
export function grafanaUrl(
  /** @type {string} */ base,
  /** @type {object} */ found,
  /** @type {string} */ metric,
) {
  const { comparison, manifests } = found;
  const name = metric || comparison.results.find((one) => one.target)?.target.metric;
  const starts = manifests.map((one) => Date.parse(one.started_at ?? one.created_at));
  const isOver = manifests.every((one) => one.finished_at);
  const ends = manifests.map((one) => Date.parse(one.finished_at));
  const params = new URLSearchParams([
    ...comparison.results.map((one) => ["var-runs", String(one.run_id)]),
    ...(name ? [["var-metric", name]] : []),
    ["from", String(Math.min(...starts))],
    ["to", isOver ? String(Math.max(...ends)) : "now"],
  ]);
  return `${base}/d/mlbench-compare?${params}`;
}
