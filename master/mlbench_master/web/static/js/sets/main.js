// The page of all benchmark sets: swept options, progress, and links to the runs.

import { get, now, query } from "../api.js";
import { byId, h, setText } from "../dom.js";
import { ago, moment, plural } from "../format.js";
import { poll } from "../poll.js";
import { termsOf } from "../runs/groups.js";
import { progressOf, progressText, sweptIn } from "../set/plan.js";
import { fillTable, problemWith, setBadge } from "../ui.js";

/** @typedef {import("../records.js").Schemas["RunSet"]} RunSet */

const POLL_MS = 5000;

/** @type {import("../ui.js").Column<RunSet>[]} */
const COLUMNS = [
  { title: "Set", isHead: true, make: ({ name }) => h("a", { href: `/sets/${encodeURIComponent(name)}` }, h("bdi", {}, name)) },
  {
    title: "Progress",
    make: () => h("span", { class: "badge" }),
    fill: (cell, set) => setBadge(/** @type {HTMLElement} */ (cell.firstElementChild), ...progressOf(set)),
  },
  { title: "Benchmark", text: ({ order }) => String(order.benchmark || "own code") },
  { title: "Sweeps", text: sweptIn },
  { title: "Ledger", text: progressText },
  {
    title: "Created",
    make: ({ created_at: at }) => h("time", { datetime: at, title: moment(at) }),
    fill: (cell, { created_at: at }) => setText(cell.firstElementChild, ago(at, now())),
  },
  {
    title: "Runs",
    make: ({ name }) => [null, "set"].map((group) => {
      const href = `/runs${query({ query: termsOf({ set: name }), group })}`;
      return h("a", { href }, group ? "Groups" : "List");
    }),
  },
];

async function refresh() {
  const sets = /** @type {RunSet[]} */ (await get("/api/sets/")).toReversed();
  setText(byId("summary"), plural(sets.length, "set"));
  byId("table").hidden = !sets.length;
  byId("none").hidden = sets.length > 0;
  fillTable(byId("sets"), COLUMNS, sets, ({ name }) => name);
  return POLL_MS;
}

const poller = poll(refresh, problemWith(() => poller.now()));
