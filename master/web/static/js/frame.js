// What every page has: the theme button, and links to where else one can look.

import { get } from "./api.js";
import { h } from "./dom.js";
import * as theme from "./theme.js";

// The dashboard that shows most of what a page does.
const BOARDS = {
  workers: "mlbench-workers",
  runs: "mlbench-runs",
  run: "mlbench-run",
  compare: "mlbench-compare",
};
const LABELS = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };

function showTheme() {
  const button = document.getElementById("theme");
  button.textContent = LABELS[theme.chosen()];
}

async function showElsewhere(place) {
  const info = await get("/api/info/");
  const board = `/d/${BOARDS[document.body.dataset.page] ?? BOARDS.runs}`;
  const links = [
    ["Grafana", info.grafana && info.grafana.url + board],
    ["Prometheus", info.prometheus?.url],
  ].filter(([, url]) => url);
  place.append(...links.map(([name, href]) => h("a", { href, rel: "noopener", target: "_blank" }, name)));
}

document.getElementById("theme").addEventListener("click", theme.next);
theme.onChange(showTheme);
showTheme();

const elsewhere = document.getElementById("elsewhere");
// Without an answer the page itself says what is wrong.
if (elsewhere) showElsewhere(elsewhere).catch(() => {});
