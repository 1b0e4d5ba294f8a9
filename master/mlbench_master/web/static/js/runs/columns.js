// The columns of the list of runs: which, in what order, how wide, and what a cell shows.

import { getParam, h, setParams, setText, svg } from "../dom.js";
import * as format from "../format.js";
import { codeOf, elapsedSeconds } from "../records.js";
import { remember, remembered } from "../store.js";

/**
 * @import { Run, Schemas } from "../records.js"
 * @import { Column } from "../table.js"
 */

const STORED = "mlbench-runs-columns";
const DATE = /^\d{4}-\d\d-\d\dT/;
/** Stands for the settings that differ among the runs shown. */
export const DIFFERING = "*";
const DEFAULTS = ["outcome", "contention", DIFFERING, "workers", "time_to_target", "best", "throughput", "goodput", "curve", "duration", "created"];
const MOST_DIFFERING = 3;
// Of the runs, that share must have a setting which tells them apart.
const LEAST_COMMON = 0.7;
// Settings of the machine or the data, by which nobody tells runs apart.
const FACTS = [
  ...["seed", "goal", "threads", "torch", "blas", "data", "data_sha256", "device_name"],
  ...["train_samples", "validation_samples", "backend"],
];
const SECONDS = "s";
const SHARES = ["communication", "goodput", "waited"];
const [LETTER_PX, VALUE_LETTER_PX, PADDING_PX, MAX_TEXT_PX] = [6.5, 7.2, 22, 160];
const MOST_MEASURED = 200;
// Of a column that draws its cells itself.
const UNMEASURED = { isFigure: false, write: textOf, longest: 0, most: 1 };
const SETTING = "Setting";

/**
 * What is known of a column besides its field: a title, a width, and a value of the run's own.
 * @type {Record<string, Partial<Column<Run>> & { value?: (run: Run, now: number) => any }>}
 */
const KNOWN = {
  outcome: { title: "Outcome", width: 156 },
  benchmark: { title: "Benchmark", value: codeOf, width: 112 },
  workers: { title: "Workers", value: (run) => run.num_workers },
  time_to_target: { title: "Time to target", value: (run) => run.target_train_seconds, width: 112 },
  best: { title: "Best", width: 62 },
  last: { title: "Last", width: 62 },
  throughput: { title: "Samples/s", width: 80 },
  goodput: { title: "Goodput", width: 100 },
  waited: { title: "CPU contention", value: (run) => run.contention_share },
  contention: { title: "CPU contention", width: 30, isHiddenTitle: true },
  curve: { title: "Curve", width: 92, hint: "Target’s metric over training time, up to the target’s dashed line. Runs of one benchmark have one scale." },
  duration: { title: "Duration", value: (run, now) => elapsedSeconds(run, now), width: 96 },
  created: { title: "Created", width: 96 },
  training: { title: "Training time" },
  step_time: { title: "Step time" },
  communication: { title: "Communication" },
  accuracy: { title: "Best accuracy" },
  tag: { title: "Tags" },
  id: { title: "Id", value: (run) => run.id },
};
const UNSORTED = ["contention", "curve"];
const OF_RUN = ["outcome", "contention", "curve", "created", DIFFERING];
// Fields whose names are words.
const WORDS = [
  ...["name", "state", "division", "command", "image", "launcher", "set", "swept", "backend", "ranks"],
  ...["cores", "bandwidth", "latency", "packet_loss", "seed", "attempt", "machine", "host", "commit"],
  ...["finished", "perplexity"],
];
const STATISTICS = { last: "last", min: "lowest", max: "highest" };

/** @returns {string} what people call a field. */
export function titleOf(/** @type {string} */ id) {
  if (id === DIFFERING) return "Settings that differ";
  if (KNOWN[id]) return KNOWN[id].title;
  if (WORDS.includes(id)) return (id[0].toUpperCase() + id.slice(1)).replace("_", " ");
  const [, metric, statistic] = id.match(/^(.+)\.(last|min|max)$/) ?? [];
  return statistic ? `${format.metricTitle(metric)}, ${STATISTICS[statistic]}` : format.metricTitle(id);
}

/** @returns {string} a value of a field, for people. */
export function textOf(/** @type {unknown} */ value) {
  if (value == null || value === "") return format.NONE;
  if (typeof value === "number") return format.number(value);
  const text = String(value);
  return DATE.test(text) ? format.moment(text) : text;
}

/** @returns {string} the order after a click on the head of a field: down, up, the newest first. */
export function nextOrder(/** @type {string} */ order, /** @type {string} */ field) {
  if (order === `-${field}`) return field;
  return order === field ? "" : `-${field}`;
}

/** @returns {(value: any) => string} writes the values of a field, aligned and in one unit. */
export function writerOf(/** @type {string} */ id, /** @type {any[]} */ values, unit = "", isSetting = false) {
  if (SHARES.includes(id)) return (value) => format.percent(value);
  if (!values.every((value) => value == null || typeof value === "number") || isSetting) return textOf;
  if (unit === SECONDS) return format.durationsOfOneUnit(values);
  return values.every((value) => value == null || Number.isInteger(value)) ? countOf : format.alignedToMedian(values);
}

function countOf(value) {
  return value == null ? format.NONE : format.count(value);
}

function settingOf(/** @type {Run} */ run, /** @type {string} */ name) {
  const value = run.settings?.[name] ?? run.args[name] ?? run.swept[name] ?? null;
  return typeof value === "string" && value.trim() && Number.isFinite(Number(value)) ? Number(value) : value;
}

/** @returns {string[]} the settings that tell these runs apart: first those that were asked for. */
export function differingSettings(/** @type {Run[]} */ runs) {
  const counted = new Map();
  for (const run of runs) {
    for (const name of new Set([run.swept, run.args, run.settings ?? {}].flatMap(Object.keys))) {
      if (!counted.has(name)) counted.set(name, { name, values: new Set(), known: 0, asked: 0 });
      const count = counted.get(name);
      count.values.add(settingOf(run, name));
      count.known += 1;
      count.asked += name in run.swept || name in run.args ? 1 : 0;
    }
  }
  const isApart = ({ name, values, known }) => values.size > 1 && known >= LEAST_COMMON * runs.length && !FACTS.includes(name);
  const apart = [...counted.values()].filter(isApart);
  return apart.sort((a, b) => b.asked - a.asked).slice(0, MOST_DIFFERING).map(({ name }) => name);
}

// The benchmark comes first, where there are several.
function withBenchmark(/** @type {Run[]} */ runs) {
  const several = new Set(runs.map(codeOf)).size > 1;
  return [...(several ? ["benchmark"] : []), ...differingSettings(runs)].slice(0, MOST_DIFFERING);
}

/** The columns that a user has chosen, as the address says or this browser remembers. */
export class Columns {
  #stored = remembered(STORED, {});
  /** @type {string[]} */
  ids = listed(getParam("columns")) ?? this.#stored.ids ?? DEFAULTS;
  /** @type {Record<string, number>} */
  widths = this.#stored.widths ?? {};
  /** @type {string[]} */
  pinned = this.#stored.pinned ?? [];
  order = getParam("order");
  group = listed(getParam("group")) ?? [];
  /** @type {Schemas["RunField"][]} */
  fields = [];

  /** @type {WeakMap<Run[], Map<string, any>>} */
  #measured = new WeakMap();
  /** @type {WeakMap<Run[], string[]>} */
  #differing = new WeakMap();

  constructor(/** @type {() => void} */ onChange) {
    this.onChange = onChange;
  }

  /** @returns {string[]} the fields whose values the API must send. */
  requested() {
    const own = (id) => OF_RUN.includes(id) || KNOWN[id]?.value;
    return [...new Set(["best", ...this.ids])].filter((id) => !own(id));
  }

  sort(/** @type {string} */ field) {
    this.order = nextOrder(this.order, field);
    this.#keep();
  }

  toggle(/** @type {string} */ id) {
    this.ids = this.ids.includes(id) ? this.ids.filter((other) => other !== id) : [...this.ids, id];
    this.#keep();
  }

  pin(/** @type {string} */ id) {
    this.pinned = this.pinned.includes(id) ? this.pinned.filter((other) => other !== id) : [...this.pinned, id];
    this.#keep();
  }

  /** Move a column before another one; a setting that differs moves all of them. */
  move(/** @type {string} */ id, /** @type {string} */ before) {
    const [moved, other] = [id, before].map((name) => (this.ids.includes(name) ? name : DIFFERING));
    if (moved === other || !this.ids.includes(moved)) return;
    const [from, to] = [this.ids.indexOf(moved), this.ids.indexOf(other)];
    const ids = this.ids.filter((name) => name !== moved);
    ids.splice(ids.indexOf(other) + (from < to ? 1 : 0), 0, moved);
    this.ids = ids;
    this.#keep();
  }

  resize(/** @type {string} */ id, /** @type {number | null} */ width) {
    if (width === null) delete this.widths[id];
    else this.widths[id] = Math.round(width);
    this.#keep();
  }

  reset() {
    [this.ids, this.widths, this.pinned] = [DEFAULTS, {}, []];
    this.#keep();
  }

  groupBy(/** @type {string[]} */ names) {
    this.group = names;
    this.#keep();
  }

  #keep() {
    const { ids, widths, pinned } = this;
    const isDefault = ids.join() === DEFAULTS.join();
    remember(STORED, { ids: isDefault ? undefined : ids, widths, pinned });
    setParams({ columns: isDefault ? "" : ids.join(","), order: this.order, group: this.group.join(",") });
    this.onChange();
  }

  /**
   * @param {Run[]} runs that are shown
   * @param {{ now: number, show: Record<string, (cell: HTMLElement, run: Run) => void> }} how the
   *   columns that draw their cells themselves do it
   * @returns {Column<Run>[]} the chosen columns, pinned ones first
   */
  toColumns(runs, how) {
    if (!this.#differing.has(runs)) this.#differing.set(runs, withBenchmark(runs));
    const differing = this.#differing.get(runs).filter((name) => !this.ids.includes(name));
    const ids = this.ids.flatMap((id) => (id === DIFFERING ? differing : [id]));
    const isPinned = (id) => this.pinned.includes(id);
    const sorted = [...ids.filter(isPinned), ...ids.filter((id) => !isPinned(id))];
    return sorted.map((id) => ({ ...this.#toColumn(id, runs, how), isPinned: isPinned(id) }));
  }

  /** @returns {Column<Run>} */
  #toColumn(id, runs, { now, show }) {
    const field = this.fields.find(({ name }) => name === id);
    const { value, ...known } = KNOWN[id] ?? {};
    const ownOf = /** @type {any} */ (value);
    const valueOf = (run) => (ownOf ? ownOf(run, now) : id in run.values ? run.values[id] : settingOf(run, id));
    const { isFigure, write, longest, most } = show[id] ? UNMEASURED : this.#measure(id, runs, valueOf, field);
    const title = titleOf(id);
    const column = {
      ...{ id, title, isFigure, hint: hintOf(id, field), order: UNSORTED.includes(id) ? "" : id },
      ...{ width: Math.round(Math.max(LETTER_PX * title.length + PADDING_PX, longest)), ...known },
      ...(this.widths[id] && { width: this.widths[id], isResized: true }),
    };
    if (show[id]) return { ...column, fill: show[id] };
    if (id === "goodput") return { ...column, fill: (cell, run) => showShare(cell, valueOf(run)) };
    if (id !== "time_to_target") return { ...column, fill: (cell, run) => showText(cell, valueOf(run), write) };
    return { ...column, fill: (cell, run) => showBar(cell, valueOf(run), most, write) };
  }

  // How the values of a column are written. As long as the same runs are shown, that stays.
  #measure(id, runs, valueOf, field) {
    const measured = this.#measured.get(runs) ?? new Map();
    this.#measured.set(runs, measured);
    if (measured.get(id)?.field !== field || !measured.has(id)) {
      const values = runs.map(valueOf);
      const isFigure = values.every((one) => one == null || typeof one === "number");
      const write = writerOf(id, values, field?.unit, field?.help === SETTING);
      const letters = Math.max(0, ...values.slice(0, MOST_MEASURED).map((one) => write(one).length));
      const longest = Math.min(MAX_TEXT_PX, VALUE_LETTER_PX * letters + PADDING_PX);
      measured.set(id, { field, isFigure, write, longest, most: ninthTenth(values) });
    }
    return measured.get(id);
  }
}

/** @returns {string[] | undefined} names separated by commas; undefined without any. */
export function listed(/** @type {string} */ text) {
  const names = [...new Set(text.split(/[\s,]+/).filter(Boolean))];
  return names.length ? names : undefined;
}

function hintOf(id, field) {
  const help = KNOWN[id]?.hint ?? field?.help ?? "";
  return titleOf(id) === id ? help : [help, field && `(${id})`].filter(Boolean).join(" ");
}

/** @returns {number} what nine tenths of values do not exceed: a few very long runs squeeze no others. */
export function ninthTenth(/** @type {(number | null)[]} */ values) {
  const known = values.filter((value) => value != null).sort((a, b) => a - b);
  return known[Math.floor(0.9 * (known.length - 1))] ?? 1;
}

function showText(cell, value, write) {
  const text = value == null || value === "" ? "" : write(value);
  setText(cell, text);
  cell.title = text;
}

function showBar(cell, value, most, write) {
  setText(cell, value == null ? "" : write(value));
  cell.title = value == null ? "" : format.duration(value);
  cell.classList.add("runs-bar");
  cell.style.setProperty("--share", String(Math.min(1, (value ?? 0) / (most || 1))));
}

function showShare(cell, value) {
  if (!cell.firstElementChild) cell.append(h("span", { class: "runs-share", "aria-hidden": "true" }), h("span"));
  const [bar, text] = cell.children;
  bar.hidden = value == null;
  bar.style.setProperty("--share", String(value ?? 0));
  setText(text, value == null ? "" : format.percent(value));
}

/** Show a mark in the cell of a run under CPU contention. */
export function showContention(/** @type {HTMLElement} */ cell, /** @type {Run} */ run) {
  if (run.disturbed === cell.hasChildNodes()) return;
  const label = `CPU contention ${format.percent(run.contention_share)}: results may be distorted`;
  const size = { width: 14, height: 14, viewBox: "0 0 14 14", class: "runs-contention", role: "img", "aria-label": label };
  const parts = [svg("title", {}, label), svg("circle", { cx: 7, cy: 7, r: 5.5 }), svg("path", { d: "M7 7V1.5A5.5 5.5 0 0 1 12.5 7Z" })];
  cell.replaceChildren(...(run.disturbed ? [svg("svg", size, ...parts)] : []));
}
