// The page of all benchmark sets: swept options, progress, and links to the runs.

import { get, now, query } from "../api.js";
import { byId, h, setText } from "../dom.js";
import { ago, moment, plural } from "../format.js";
import { poll } from "../poll.js";
import { ACTIVE_STATES } from "../records.js";
import { termsOf } from "../runs/groups.js";
import { optionTitle } from "../compare/answer.js";
import { progressText } from "../set/plan.js";
import { errorState, fillTable } from "../ui.js";

/** @typedef {import("../records.js").Schemas["RunSet"]} RunSet */

const POLL_MS = 5000;

/** @returns {string} the options that differ between the slots of a set. */
export function sweptIn(/** @type {Pick<RunSet, "slots">} */ { slots }) {
  const keys = new Set(slots.flatMap((slot) => Object.keys(slot.swept)));
  const isScaled = new Set(slots.map((slot) => slot.num_workers)).size > 1;
  return [...[...keys].map(optionTitle), ...(isScaled ? ["workers"] : [])].join(" × ");
}

/** @returns {{ state: string, text: string }} how many slots of a set have a run that counts */
export function progressOf(/** @type {Pick<RunSet, "slots">} */ { slots }) {
  const left = slots.filter(({ is_open: isOpen, trials }) => isOpen || trials.some(({ state }) => ACTIVE_STATES.includes(state))).length;
  return { state: left ? "running" : "complete", text: `${left ? "running" : "complete"} · ${slots.length - left} of ${plural(slots.length, "slot")}` };
}

/** @type {import("../ui.js").Column<RunSet>[]} */
const COLUMNS = [
  {
    title: "Set",
    isHead: true,
    fill: (cell, { name }) => fillOnce(cell, () => h("a", { href: `/sets/${encodeURIComponent(name)}` }, h("bdi", {}, name))),
  },
  {
    title: "Progress",
    fill: (cell, set) => {
      const { state, text } = progressOf(set);
      fillOnce(cell, () => h("span", { class: "badge" }));
      /** @type {HTMLElement} */ (cell.firstElementChild).dataset.state = state;
      setText(cell.firstElementChild, text);
    },
  },
  { title: "Benchmark", text: ({ order }) => String(order.benchmark || "own code") },
  { title: "Sweeps", text: sweptIn },
  { title: "Ledger", text: progressText },
  {
    title: "Created",
    fill: (cell, { created_at: at }) => {
      fillOnce(cell, () => h("time", { datetime: at, title: moment(at) }));
      setText(cell.firstElementChild, ago(at, now()));
    },
  },
  {
    title: "Runs",
    fill: (cell, { name }) => fillOnce(cell, () => {
      const terms = termsOf({ set: name });
      const href = `/runs${query({ query: terms, group: "set" })}`;
      return [h("a", { href: `/runs${query({ query: terms })}` }, "List"), h("a", { href }, "Groups")];
    }),
  },
];

function fillOnce(cell, create) {
  if (!cell.firstElementChild) cell.append(...[create()].flat());
}

async function refresh() {
  const sets = /** @type {RunSet[]} */ (await get("/api/sets/")).toReversed();
  byId("problem").replaceChildren();
  setText(byId("summary"), plural(sets.length, "set"));
  byId("table").hidden = !sets.length;
  byId("none").hidden = sets.length > 0;
  fillTable(byId("sets"), COLUMNS, sets, ({ name }) => name);
  return POLL_MS;
}

const poller = poll(refresh, (error) => byId("problem").replaceChildren(errorState(error, () => poller.now())));
