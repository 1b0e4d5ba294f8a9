// The table of runs: one row each, in which only what is new changes.

import { h, keep, setText } from "../dom.js";
import * as format from "../format.js";
import { badge, setBadge } from "../pieces.js";
import { code } from "./list.js";
import { lasting, limits, result, why } from "./words.js";

/**
 * Show runs.
 * @param {HTMLElement} body of the table
 * @param {import("./list.js").Run[]} runs in their order
 * @param {Set<number>} selected ids
 * @param {number} now in Unix milliseconds
 */
export function showRows(body, runs, selected, now) {
  keep(body, runs, (run) => run.id, createRow, (row, run) => {
    updateRow(row, run, now);
    row.querySelector("input").checked = selected.has(run.id);
  });
}

function createRow(run) {
  const { id, name, created_at: created } = run;
  const box = h("input", { type: "checkbox", value: id, "aria-label": `Select run ${id}` });
  const time = h("time", { datetime: created, title: format.moment(created) });
  return h(
    "tr",
    {},
    h("td", { class: "runs-select" }, h("label", {}, box)),
    h(
      "th",
      { scope: "row", class: "runs-name" },
      h("a", { href: `/runs/${id}` }, name),
      h("span", { class: "soft" }, `#${id}`),
    ),
    cell("state", "State", badge(run.state), detail()),
    cell("code", "Benchmark", h("span", { title: code(run) }, code(run))),
    cell("workers", "Workers", run.num_workers, detail(limits(run))),
    cell("created", "Created", time),
    cell("duration", "Duration"),
    cell("result", "Result"),
  );
}

function updateRow(row, run, now) {
  const [state, duration, ending] = ["state", "duration", "result"].map((name) =>
    row.querySelector(`.runs-${name}`),
  );
  setBadge(state.firstElementChild, run.state);
  setText(state.lastElementChild, why(run));
  state.lastElementChild.title = run.reason;
  setText(row.querySelector("time"), format.ago(run.created_at, now));
  setText(duration, lasting(run, now));
  const { text, metric, isReached } = result(run);
  setText(ending, text);
  ending.title = metric;
  ending.toggleAttribute("data-none", !run.goal);
  ending.classList.toggle("soft", !isReached);
}

function cell(name, label, ...children) {
  return h("td", { class: `runs-${name}`, "data-label": label }, children);
}

function detail(text = "") {
  return h("span", { class: "runs-detail soft" }, text);
}
