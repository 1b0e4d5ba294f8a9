// The firing alerts: lists of them, and their number in the head of every page.

import { get, now } from "./api.js";
import { draw, h, setText } from "./dom.js";
import { ago, moment, plural } from "./format.js";
import { poll } from "./poll.js";
import { urlOf } from "./root.js";

const POLL_MS = 5000;
const isCritical = (/** @type {Alert} */ alert) => alert.severity === "critical";
// The run, and the words up to the end of a sentence or to a colon. A number such as 4.1 ends neither.
const HEADLINE = /^((?:Run \d+ \(.*?\): )?.+?)(?:[.:]\s+|\.?$)(.*)$/s;

/** @type {(() => void)[]} */
const followers = [];
/** @type {Alert[] | Error | null} the firing alerts, or why they are not known; null before the first answer */
let latest = null;

/** Call `show` with the firing alerts whenever they were fetched: all parts of a page share the requests. */
export function followAlerts(/** @type {(alerts: Alert[]) => void} */ show, fail = (/** @type {Error} */ _) => {}) {
  const tell = () => (latest instanceof Error ? fail(latest) : latest && show(latest));
  if (followers.push(tell) > 1) return tell();
  const tellAll = (/** @type {typeof latest} */ answer) => {
    latest = answer;
    for (const follower of followers) follower();
  };
  poll(() => get("/api/alerts/").then(tellAll).then(() => POLL_MS), tellAll);
}

/** List alerts, critical ones first, then the newest: those of one kind about one run together. */
export function listAlerts(/** @type {HTMLElement} */ list, /** @type {Alert[]} */ alerts) {
  const sorted = alerts.toReversed().sort((a, b) => Number(isCritical(b)) - Number(isCritical(a)));
  draw(list, groupsOf(sorted), ([alert]) => alert.name + alert.since + alert.text, makeAlert);
}

/** Show in a badge how many alerts there are. */
export function countAlerts(/** @type {HTMLElement} */ badge, /** @type {Alert[]} */ alerts) {
  badge.hidden = alerts.length === 0;
  badge.dataset.severity = alerts.some(isCritical) ? "critical" : "warning";
  setText(badge, plural(groupsOf(alerts).length, "alert"));
}

/** @returns {[string, string]} the headline of an alert, without a full stop, and the rest of its text. */
export function headlineOf(/** @type {Pick<Alert, "text" | "name">} */ { text, name }) {
  const [, headline, rest] = HEADLINE.exec(text.trim()) ?? ["", name, ""];
  return [headline, rest && rest[0].toUpperCase() + rest.slice(1)];
}

// Alerts of one kind about one run, in the order of their first one.
function groupsOf(/** @type {Alert[]} */ alerts) {
  return [...Map.groupBy(alerts, ({ name, run_id: run }) => `${name} ${run}`).values()];
}

function makeAlert(/** @type {Alert[]} */ [alert, ...others]) {
  const [headline, rest] = headlineOf(alert);
  const since = h("time", { datetime: alert.since, title: `${alert.severity}, since ${moment(alert.since)}` }, ago(alert.since, now()));
  const hasRun = alert.run_id !== null && location.pathname !== urlOf(`/runs/${alert.run_id}`);
  return h(
    "li",
    { class: "notice alert", "data-severity": alert.severity, title: alert.name },
    h("strong", {}, h("bdi", {}, headline), " "),
    h("span", { class: "soft" }, others.length > 0 && `and ${others.length} more like it`),
    rest && h("div", { class: "soft" }, h("bdi", {}, rest)),
    h(
      "div",
      { class: "row" },
      alert.runbook && h("a", { href: `/${alert.runbook}`, target: "_blank", rel: "noopener" }, "What to do ›"),
      hasRun && h("a", { href: `/runs/${alert.run_id}` }, `Run ${alert.run_id}`),
      h("span", { class: "soft" }, since),
    ),
  );
}
