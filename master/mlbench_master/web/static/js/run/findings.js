// The findings of a run: at most three problems, each with its cost and a link to its evidence.

import { byId, draw, h } from "../dom.js";
import { count, duration } from "../format.js";
import { missingOf } from "../records.js";

/**
 * A finding. Its `link` leads to `evidence`, which is a tab and the id of an element, or a page.
 * @typedef {{ kind: string, severity: "bad" | "warn", title: string, text: string, badge: string,
 *   link: string, evidence: string }} Finding
 */

const MAX_FINDINGS = 3;
// The link to each kind of evidence, and its place on the page.
const EVIDENCE = {
  loss: ["Show loss", "?tab=overview#charts"],
  ranks: ["Show ranks", "?tab=overview#worst-ranks"],
  breakdown: ["Show breakdown", "?tab=overview#goodput"],
  timeline: ["Show timeline", "?tab=overview#timeline"],
};
// Alerts whose problem has a finding, a box or a notice of its own on the page.
const TOLD = ["RunFailed", "LossNotFinite", "Straggler", "CPUContention", "DeliveryMismatch", "RunNotSealed"];

/** @returns {Finding[]} the result's findings, alerts and missing samples, at most three; none for a healthy run. */
export function findingsOf(/** @type {Run} */ run, /** @type {Result | null} */ result, /** @type {Alert[]} */ alerts = []) {
  const all = [...alerts.map(alerting), ...(result?.findings ?? []).map(ofResult), missing(run)];
  const isBad = (/** @type {Finding} */ { severity }) => Number(severity === "bad");
  return all.filter(Boolean).sort((a, b) => isBad(b) - isBad(a)).slice(0, MAX_FINDINGS);
}

/** @returns {Finding} */
function ofResult(/** @type {Result["findings"][number]} */ { rule, severity, title, text, saving, evidence }) {
  const [link, place] = EVIDENCE[evidence];
  const badge = saving ? `saves ${duration(saving.seconds)}` : "";
  return { kind: rule, severity, title, text, badge, link, evidence: place };
}

/** @returns {Finding | null} */
function missing(/** @type {Run} */ { delivery }) {
  const lost = missingOf(delivery);
  if (!(lost > 0)) return null;
  const text = `${count(lost)} of ${count(delivery.recorded)} samples. Grafana lacks them; pages and results do not.`;
  const place = { link: "Show delivery", evidence: "?tab=record#delivery" };
  return { kind: "missing", severity: "warn", title: "Prometheus lacks samples", text, badge: "", ...place };
}

/** @returns {Finding | null} */
function alerting(/** @type {Alert} */ { name, severity, text, runbook, since }) {
  if (TOLD.includes(name.replace(/^MLBench/, ""))) return null;
  const place = { link: runbook && "What to do", evidence: `/${runbook}` };
  const grade = severity === "critical" ? "bad" : "warn";
  return { kind: `${name} ${since} ${text}`, severity: grade, title: `Alert: ${alertTitle(name)}`, text, badge: "", ...place };
}

/** @returns {string} the name of an alert in words: `loss not finite` for `MLBenchLossNotFinite`. */
export function alertTitle(/** @type {string} */ name) {
  const words = name.replace(/^MLBench/, "").replaceAll(/(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, " ").split(" ");
  return words.map((word) => (word === word.toUpperCase() ? word : word.toLowerCase())).join(" ");
}

/** Show findings as cards. */
export function showFindings(/** @type {Finding[]} */ findings) {
  byId("findings").hidden = !findings.length;
  draw(byId("findings"), findings, ({ kind }) => kind, ({ severity, title, text, badge, link, evidence }) => {
    const target = evidence.startsWith("?") ? null : "_blank";
    return h(
      "li",
      { class: "finding", "data-severity": severity },
      h("div", { class: "head" }, h("h2", {}, title), h("b", { class: "badge" }, badge)),
      h("p", {}, h("span", {}, text), " ", link && h("a", { href: evidence, target }, `${link} ›`)),
    );
  });
}
