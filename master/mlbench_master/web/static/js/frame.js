// The frame of every page: theme button, links to Grafana and Prometheus, and alerts.

import { listAlerts } from "./alerts.js";
import { get } from "./api.js";
import { byId, h } from "./dom.js";
import { boardOf } from "./grafana.js";
import { poll } from "./poll.js";
import * as theme from "./theme.js";

function showTheme() {
  byId("theme").textContent = `Theme: ${theme.chosen()}`;
}

async function showLinks(place) {
  /** @type {import("./records.js").Info} */
  const info = await get("/api/info/");
  const links = [
    ["Grafana", info.grafana && info.grafana.url + boardOf(document.body.dataset.page)],
    ["Prometheus", info.prometheus?.url],
  ].filter(([, url]) => url);
  const props = { rel: "noopener", target: "_blank" };
  place.append(...links.map(([name, href]) => h("a", { href, ...props }, name)));
}

byId("theme").addEventListener("click", theme.next);
theme.onChange(showTheme);
showTheme();

const place = byId("elsewhere");
// Without a response, the page itself shows a notice.
if (place) showLinks(place).catch(() => {});
const alerts = byId("stack-alerts");
if (alerts) poll(() => listAlerts(alerts, (alert) => alert.run_id === null), () => {});
