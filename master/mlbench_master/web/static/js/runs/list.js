// The list of runs, shown as the rows of a table.

import { h, reconcile, setText } from "../dom.js";
import * as format from "../format.js";
import { codeOf, elapsedSeconds, errorOf, isActive, nameOf, notFiniteOf, originOf, sweptOf, waitingFor } from "../records.js";
import { runBadge, setRunBadge, showTags } from "../ui.js";
import { textOf } from "./columns.js";

/** @import { Run } from "../records.js" */

const MAX_REASON_LENGTH = 120;

/**
 * Show runs as rows.
 * @param {HTMLElement} body of the table
 * @param {Run[]} runs in their order
 * @param {Set<number>} selected ids
 * @param {number} now in Unix milliseconds
 * @param {string[]} columns the fields that are shown besides
 */
export function showRows(body, runs, selected, now, columns) {
  reconcile(body, runs, (run) => run.id, createRow, (row, run) => {
    updateRow(row, run, now);
    showValues(row, run, columns);
    setText(row.querySelector(".runs-result .runs-detail"), marksOf(run));
    row.querySelector("input").checked = selected.has(run.id);
  });
}

function createRow(/** @type {Run} */ run) {
  const { id, created_at: created } = run;
  const box = h("input", { type: "checkbox", value: id, "aria-label": `Select run ${id}` });
  const time = h("time", { datetime: created, title: format.moment(created) });
  const link = h("a", { href: `/runs/${id}` });
  return h(
    "tr",
    {},
    h("td", { class: "runs-select" }, h("label", {}, box)),
    h("th", { scope: "row", class: "runs-name" }, link, h("span", { class: "soft" }), h("ul", { class: "tags", role: "list", "aria-label": "Tags" })),
    cell("state", "Outcome", runBadge(run), detail()),
    cell("code", "Benchmark", h("span", { title: run.benchmark || run.command }, codeOf(run))),
    cell("workers", "Workers", run.num_workers, detail(limitsOf(run))),
    cell("created", "Created", time),
    cell("duration", "Duration"),
    cell("result", "Result", h("span"), detail()),
    cell("curve", "Curve"),
  );
}

function updateRow(row, /** @type {Run} */ run, now) {
  const [state, duration, result] = ["state", "duration", "result"].map((name) =>
    row.querySelector(`.runs-${name}`),
  );
  const name = nameOf(run);
  const aside = [`#${run.id}`, originOf(run), name === run.title ? sweptOf(run) : run.title];
  const [link, others] = row.querySelector(".runs-name").children;
  setText(link, name);
  setText(others, aside.filter(Boolean).join(", "));
  showTags(row.querySelector(".tags"), run.tags);
  setRunBadge(state.firstElementChild, run);
  setText(state.lastElementChild, explanationOf(run));
  state.lastElementChild.title = run.reason;
  setText(row.querySelector("time"), format.ago(run.created_at, now));
  setText(duration, format.duration(elapsedSeconds(run, now)));
  setText(result.firstElementChild, resultOf(run));
  result.title = run.target?.metric ?? "";
  result.toggleAttribute("data-none", !run.target);
  result.classList.toggle("soft", run.target_reached_at === null);
}

function showValues(row, /** @type {Run} */ run, columns) {
  const cells = [...row.querySelectorAll(".runs-value")];
  if (cells.map((td) => td.dataset.label).join() !== columns.join()) {
    for (const td of cells) td.remove();
    row.append(...columns.map((name) => cell("value", name)));
  }
  [...row.querySelectorAll(".runs-value")].forEach((td, i) => setText(td, textOf(run.values[columns[i]])));
}

function cell(name, label, ...children) {
  return h("td", { class: `runs-${name}`, "data-label": label }, children);
}

function detail(text = "") {
  return h("span", { class: "runs-detail soft" }, text);
}

// The reason of a run's state.
function explanationOf(/** @type {Run} */ run) {
  if (run.delete_requested) return "stopping, to be deleted";
  if (run.state === "STARTED" && run.stop_requested) return "stopping";
  if (isActive(run)) return waitingFor(run);
  const line = run.state === "FAILED" ? errorOf(run) : run.reason.trim().split("\n")[0];
  if (!line) return waitingFor(run);
  return line.length > MAX_REASON_LENGTH ? `${line.slice(0, MAX_REASON_LENGTH)}…` : line;
}

// Warnings that belong to a result.
function marksOf(/** @type {Run} */ run) {
  const marks = [
    notFiniteOf(run),
    run.disturbed && `disturbed, CPU contention ${format.percent(run.contention_share)}`,
    run.replaced_by && `replaced by run ${run.replaced_by}`,
  ];
  return marks.filter(Boolean).join(", ");
}

function limitsOf(/** @type {Run} */ run) {
  const parts = [
    run.num_cpus && `${format.number(run.num_cpus)} ${run.num_cpus === 1 ? "core" : "cores"} each`,
    run.max_bandwidth && `${format.number(run.max_bandwidth)} Mbit/s`,
    run.latency_ms && `${format.number(run.latency_ms)} ms`,
    run.loss_percent && `${format.number(run.loss_percent)} % packet loss`,
    run.gpu_enabled && "GPU",
  ];
  return parts.filter(Boolean).join(", ");
}

function resultOf(/** @type {Run} */ run) {
  if (!run.target) return format.NONE;
  const target = format.metric(run.target.metric, run.target.value);
  if (run.target_reached_at === null)
    return isActive(run) ? `target ${target}` : `${target} not reached`;
  const took = run.target_train_seconds;
  return took === null ? target : `${target} in ${format.duration(took)}`;
}
