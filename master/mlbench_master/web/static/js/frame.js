// The frame of every page: the number of alerts, links to Grafana and Prometheus, and the menu.

import { countAlerts, followAlerts } from "./alerts.js";
import { get, query } from "./api.js";
import { byId, h, setText } from "./dom.js";
import { boardOf } from "./grafana.js";
import * as theme from "./theme.js";
import { menu } from "./ui.js";

async function showLinks(place) {
  /** @type {Info} */
  const info = await get("/api/info/");
  const links = [
    ["Grafana", info.grafana && info.grafana.url + boardOf(document.body.dataset.page)],
    ["Prometheus", info.prometheus?.url],
  ].filter(([, url]) => url);
  const create = ([name, href]) => h("a", { href, rel: "noopener", target: "_blank" }, `${name} ↗`);
  place.append(...links.map(create));
  const own = `user="${info.user.replaceAll('"', '""')}"`;
  if (info.user) byId("account-items").prepend(h("a", { href: `/runs${query({ query: own })}` }, `Runs of ${info.user}`));
  // On a narrow screen, the menu has them instead.
  byId("account-items").prepend(...links.map(create));
}

// A page in a file has the theme alone, without a menu.
const account = byId("account");
if (account) menu(account, byId("account-items"));
byId("theme").addEventListener("click", (/** @type {Event} */ event) => {
  event.stopPropagation(); // the menu stays open for the next theme
  theme.next();
});
const showTheme = () => setText(byId("theme"), `Theme: ${theme.chosen()}`);
theme.onChange(showTheme);
showTheme();

const place = byId("elsewhere");
// Without a response, the page itself shows a notice.
if (place) showLinks(place).catch(() => {});
const badge = byId("alert-count");
if (badge) followAlerts((alerts) => countAlerts(badge, alerts));
