// The firing alerts: lists of them, and their number in the head of every page.

import { get, now } from "./api.js";
import { h, reconcile, setText } from "./dom.js";
import { ago, moment, plural } from "./format.js";

const POLL_MS = 5000;
const isCritical = (/** @type {Alert} */ alert) => alert.severity === "critical";
// The run, and the words up to the end of a sentence or to a colon. A number such as 4.1 ends neither.
const HEADLINE = /^((?:Run \d+ \(.*?\): )?.+?)(?:[.:]\s+|\.?$)(.*)$/s;

/**
 * Fetch the alerts that fire, and list some of them, critical ones first: those of one kind about one
 * run together. A task for `poll`.
 */
export async function listAlerts(/** @type {HTMLElement} */ list, isListed = (/** @type {Alert} */ _) => true) {
  /** @type {Alert[]} */
  const newestFirst = (await get("/api/alerts/")).filter(isListed).toReversed();
  const alerts = newestFirst.sort((a, b) => Number(isCritical(b)) - Number(isCritical(a)));
  reconcile(list, groupsOf(alerts), ([alert]) => alert.name + alert.since + alert.text, ([alert]) => createAlert(alert), (item, group) => {
    setText(item.querySelector("strong + .soft"), group.length > 1 ? `and ${group.length - 1} more like it` : "");
    setText(item.querySelector("time"), ago(group[0].since, now()));
  });
  return POLL_MS;
}

/** Fetch the alerts that fire, and show their number in a badge; a task for `poll`. */
export async function countAlerts(/** @type {HTMLElement} */ badge) {
  const alerts = /** @type {Alert[]} */ (await get("/api/alerts/"));
  badge.hidden = alerts.length === 0;
  badge.dataset.severity = alerts.some(isCritical) ? "critical" : "warning";
  setText(badge, plural(groupsOf(alerts).length, "alert"));
  return POLL_MS;
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

function createAlert(/** @type {Alert} */ alert) {
  const [headline, rest] = headlineOf(alert);
  const since = h("time", { datetime: alert.since, title: `${alert.severity}, since ${moment(alert.since)}` });
  const hasRun = alert.run_id !== null && location.pathname !== `/runs/${alert.run_id}`;
  return h(
    "li",
    { class: "notice alert", "data-severity": alert.severity, title: alert.name },
    h("strong", {}, h("bdi", {}, headline), " "),
    h("span", { class: "soft" }),
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
