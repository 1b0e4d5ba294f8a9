// What every page has: the theme button, and links to where else one can look.

import { get } from "./api.js";
import { h } from "./dom.js";
import * as theme from "./theme.js";

const LABELS = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };

function showTheme() {
  const button = document.getElementById("theme");
  button.textContent = LABELS[theme.chosen()];
}

async function showElsewhere(place) {
  const info = await get("/api/info/");
  const links = [
    ["Grafana", info.grafana?.url],
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
