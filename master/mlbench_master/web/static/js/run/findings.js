// The findings of a run: at most three problems, each with its cost and a link to its evidence.

import { byId, draw, h } from "../dom.js";
import { count, duration, percent, plural } from "../format.js";
import { missingOf, notFiniteOf } from "../records.js";
import { sum } from "../series.js";

/**
 * A finding. Its `cost` in seconds of worker time orders findings; `link` leads to `evidence`, which
 * is a tab and the id of an element, or a page.
 * @typedef {{ kind: string, severity: "bad" | "warn", title: string, text: string, badge: string,
 *   cost: number, link: string, evidence: string }} Finding
 */

const MAX_FINDINGS = 3;
// A straggler that costs more than this is marked as an error, not as a warning.
const BAD_SPEEDUP = 1.5;
// Shorter start-up times are usual for imports, and a longer run has a smaller share of them.
const [MIN_STARTUP_SHARE, MIN_STARTUP_SECONDS] = [0.4, 10];
const MIN_COMMUNICATION_SHARE = 0.5;
const STARTUP = ["workers", "start", "initialization"];
const STEP = ["compute", "communication", "waiting", "contention"];
const RESTART = ["lost", "detection", "restart", "stopped"];
// Link and evidence of findings about the time breakdown.
const BREAKDOWN = ["Show breakdown", "?tab=overview#goodput"];
const ACTIVITIES = { compute: "compute", data: "data loading", checkpoint: "checkpoints" };
// Alerts whose problem has a finding, a box or a notice of its own on the page.
const TOLD = ["RunFailed", "LossNotFinite", "Straggler", "CPUContention", "DeliveryMismatch", "RunNotSealed"];

/** @returns {Finding[]} what made a run slow or wrong, at most three, most expensive first; none for a healthy run. */
export function findingsOf(/** @type {Run} */ run, /** @type {Result | null} */ result, /** @type {Alert[]} */ alerts = []) {
  const seconds = result?.goodput?.seconds ?? {};
  const of = (/** @type {string[]} */ buckets) => sum(buckets.map((bucket) => seconds[bucket] ?? 0));
  const whole = sum(Object.values(seconds));
  const all = [
    nan(run, of(["diverged"]), whole),
    missing(run),
    ...alerts.map(alerting),
    result && straggler(result, of(["waiting"])),
    result && contention(result, of(["contention"])),
    startup(run, of(STARTUP), whole),
    run.benchmark === "communication" ? null : communication(run, of(["communication"]), of(STEP)),
    result && restarts(run, result, of(RESTART)),
  ];
  const isBad = (/** @type {Finding} */ { severity }) => Number(severity === "bad");
  return all.filter(Boolean).sort((a, b) => isBad(b) - isBad(a) || b.cost - a.cost).slice(0, MAX_FINDINGS);
}

function nan(/** @type {Run} */ run, cost, whole) {
  if (!run.not_finite) return null;
  const { rank } = run.not_finite;
  const text = `${notFiniteOf(run)}${rank === "" ? "" : `, rank ${rank}`}. Training from there on cannot succeed.`;
  const badge = cost && `${percent(cost / whole)} wasted`;
  return finding("nan", "bad", "The loss is NaN", text, badge, cost, "Show loss", "?tab=overview#charts");
}

function missing(/** @type {Run} */ { delivery }) {
  const lost = missingOf(delivery);
  if (!(lost > 0)) return null;
  const text = `${count(lost)} of ${count(delivery.recorded)} samples. Grafana lacks them; pages and results do not.`;
  return finding("missing", "warn", "Prometheus lacks samples", text, "", 0, "Show delivery", "?tab=record#delivery");
}

function alerting(/** @type {Alert} */ { name, severity, text, runbook, since }) {
  if (TOLD.includes(name.replace(/^MLBench/, ""))) return null;
  const kind = `${name} ${since} ${text}`;
  const grade = severity === "critical" ? "bad" : "warn";
  return finding(kind, grade, `Alert: ${alertTitle(name)}`, text, "", Infinity, runbook && "What to do", `/${runbook}`);
}

/** @returns {string} the name of an alert in words: `loss not finite` for `MLBenchLossNotFinite`. */
export function alertTitle(/** @type {string} */ name) {
  const words = name.replace(/^MLBench/, "").replaceAll(/(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, " ").split(" ");
  return words.map((word) => (word === word.toUpperCase() ? word : word.toLowerCase())).join(" ");
}

function straggler(/** @type {Result} */ { stragglers, ranks }, cost) {
  if (stragglers?.named == null) return null;
  const { rank, seconds, parts, speedup_without: speedup } = stragglers.ranks.find(({ rank }) => rank === stragglers.named);
  const figures = ranks.find((figures) => figures.rank === rank);
  const others = ranks.filter((figures) => figures.rank !== rank).map(({ compute_seconds: step }) => step ?? NaN);
  const typical = others.sort((a, b) => a - b)[others.length >> 1];
  const [[part]] = Object.entries(parts).sort(([, a], [, b]) => b - a);
  const steps = figures?.compute_seconds && typical ? `: ${duration(figures.compute_seconds)} a step, the others ${duration(typical)}` : "";
  const text = `${duration(seconds)} of ${duration(figures?.training_seconds)}, in ${ACTIVITIES[part] ?? part}${steps}.`;
  const severity = speedup >= BAD_SPEEDUP ? "bad" : "warn";
  const badge = `${speedup.toFixed(1)}× as fast without it`;
  return finding("straggler", severity, `Rank ${rank} held up the others`, text, badge, cost, "Show ranks", "?tab=overview#worst-ranks");
}

function contention(/** @type {Result} */ { disturbed, interferences, contention_share: share }, cost) {
  if (!disturbed.length) return null;
  const [worst, ...others] = interferences.filter((rank) => rank.disturbed).sort((a, b) => b.contention_share - a.contention_share);
  const programs = Object.keys(worst?.measured.top ?? {}).slice(0, 2);
  const who = programs.length ? `: ${programs.join(", ")}` : "";
  const numbers = new Set([worst, ...others].map((rank) => rank?.rank));
  const ranks = numbers.size > 1 ? plural(numbers.size, "rank") : `rank ${worst?.rank ?? ""}`;
  const text = `Other programs used cores of ${ranks}${who}.`;
  return finding("contention", "warn", "CPU contention", text, `up to ${percent(share)} of the time`, cost, ...BREAKDOWN);
}

function startup(/** @type {Run} */ { num_workers: workers, outcome, state, not_finite: loss, attempt }, cost, whole) {
  // The share of start-up in a run that broke off means nothing.
  if (state === "FAILED" || outcome?.kind === "hung" || loss || attempt > 1) return null;
  const [share, each] = [cost / whole, cost / workers];
  if (!(share >= MIN_STARTUP_SHARE && each >= MIN_STARTUP_SECONDS)) return null;
  const text = `Imports and initialization took ${duration(each)} of ${duration(whole / workers)}.`;
  return finding("startup", "warn", `${percent(share)} of the time was start-up`, text, `${duration(each)} a run`, cost, ...BREAKDOWN);
}

function communication(/** @type {Run} */ { max_bandwidth: limit }, cost, steps) {
  const share = cost / steps;
  if (!(share >= MIN_COMMUNICATION_SHARE)) return null;
  const cause = limit ? ` The bandwidth is limited to ${limit} Mbit/s.` : "";
  const text = `${duration(cost)} of ${duration(steps)} worker time in steps.${cause}`;
  return finding("communication", "warn", "Communication dominates the steps", text, `${percent(share)} of step time`, cost, ...BREAKDOWN);
}

function restarts(/** @type {Run} */ { attempt, faults }, /** @type {Result} */ { resumptions }, cost) {
  if (attempt < 2) return null;
  const steps = sum(resumptions.map((resumption) => resumption.discarded_steps));
  const title = plural(attempt - 1, faults ? "planned restart" : "restart");
  const lost = steps ? `, with ${plural(steps, "discarded step")}` : "";
  const cause = faults ? `Faults were injected as planned (${faults})` : "Ranks failed and were restarted";
  const badge = cost && `${duration(cost)} worker time`;
  return finding("restarts", "warn", title, `${cause}${lost}.`, badge, cost, "Show timeline", "?tab=overview#timeline");
}

/** @returns {Finding} */
function finding(kind, severity, title, text, badge, cost, link, evidence) {
  return { kind, severity, title, text, badge: badge || "", cost, link, evidence };
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
