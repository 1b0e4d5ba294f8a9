// The alerts that fire, in a list.

import { get } from "./api.js";
import { h, reconcile } from "./dom.js";
import { moment } from "./format.js";

/** @import { Alert } from "./records.js" */

const POLL_MS = 5000;

/**
 * Fetch the alerts that fire, and list some of them; a task for `poll`.
 * @param {HTMLElement} list
 * @param {(alert: Alert) => boolean} isWanted
 */
export async function listAlerts(list, isWanted) {
  const alerts = (await get("/api/alerts/")).filter(isWanted);
  reconcile(list, alerts, (alert) => alert.name + alert.since + alert.text, createAlert);
  return POLL_MS;
}

function createAlert(/** @type {Alert} */ alert) {
  const details = `${alert.severity}, since ${moment(alert.since)}. `;
  return h(
    "li",
    { class: `notice ${alert.severity === "critical" ? "bad" : ""}` },
    h("strong", {}, alert.name),
    ` ${alert.text} `,
    h("span", { class: "soft small-text" }, details),
    alert.runbook && h("a", { href: `/${alert.runbook}`, target: "_blank" }, "Runbook"),
  );
}
