// The page of all benchmark sets: swept options, progress, and links to the runs.

import { get, query } from "../api.js";
import { byId, h, setText } from "../dom.js";
import { plural } from "../format.js";
import { poll } from "../poll.js";
import { termsOf } from "../runs/groups.js";
import { progressOf, progressText, sweptIn } from "../set/plan.js";
import { AGE, badge, fillTable, problemWith } from "../ui.js";

const POLL_MS = 5000;

/** @type {import("../table.js").Column<RunSet>[]} */
const COLUMNS = [
  { title: "Set", isHead: true, cell: ({ name }) => h("a", { href: `/sets/${encodeURIComponent(name)}` }, h("bdi", {}, name)) },
  { title: "Progress", cell: (set) => badge(...progressOf(set)) },
  { title: "Benchmark", text: ({ order }) => String(order.benchmark || "own code") },
  { title: "Sweeps", text: sweptIn },
  { title: "Slots", text: progressText },
  { title: "Created", ...AGE },
  {
    title: "Runs",
    cell: ({ name }) => [["List", null], ["Groups", "set"]].map(([title, group]) =>
      h("a", { href: `/runs${query({ query: termsOf({ set: name }), group })}` }, title),
    ),
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
