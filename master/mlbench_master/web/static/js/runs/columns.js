// The columns of the list of runs: their choice, order, width and cells.

import { getParam, h, setParams } from "../dom.js";
import * as format from "../format.js";
import { codeOf, elapsedSeconds, originOf, outcomeOf, sweptOf } from "../records.js";
import { AGE, badge } from "../ui.js";
import { ninthTenth } from "./curves.js";
import { queryOf } from "./filter.js";

/** @import { Column } from "../table.js" */

const STORED = "mlbench-runs-columns";
const DATE = /^\d{4}-\d\d-\d\dT/;
/** Stands for the settings that differ among the runs shown. */
export const DIFFERING = "*";
export const DEFAULTS = "outcome contention * workers time_to_target best throughput goodput curve duration created".split(" ");
const MAX_DIFFERING = 3;
// A setting that distinguishes runs must be set in at least this share of them.
const MIN_COMMON = 0.7;
// Settings of the machine or the data, by which nobody tells runs apart.
const FACTS = "seed goal threads torch blas data data_sha256 device_name train_samples validation_samples backend".split(" ");
const SHARES = ["communication", "goodput", "waited"];
const [LETTER_PX, VALUE_LETTER_PX, PADDING_PX, MAX_TEXT_PX] = [6.5, 7.2, 18, 160];
const MAX_MEASURED = 200;
const CONTROL = { isFixed: true, isPinned: true, isHiddenTitle: true };
// The end of a long name is shown, too: there runs of a set differ.
const [PLAIN, END_LENGTH] = [/^[\x20-\x7e]{16,}$/, 9];

/**
 * Properties of a column besides its field: a title, a width, and a function that computes the value.
 * @type {Record<string, Partial<Column<Run>> & { value?: (run: Run, now: number) => any }>}
 */
const KNOWN = {
  outcome: { title: "Outcome", width: 176, value: ({ outcome }) => outcome?.kind },
  benchmark: { title: "Benchmark", value: codeOf, width: 112 },
  workers: { title: "Workers", value: (run) => run.num_workers },
  time_to_target: { title: "Time to target", value: (run) => run.target_train_seconds, width: 112 },
  best: { title: "Best", width: 62 },
  last: { title: "Last", width: 62 },
  throughput: { title: "Samples/s", width: 80 },
  goodput: { title: "Goodput", width: 100 },
  waited: { title: "CPU contention", value: (run) => run.contention_share },
  contention: { title: "CPU contention", value: (run) => run.disturbed, width: 30, isHiddenTitle: true, order: "" },
  curve: {
    ...{ title: "Curve", value: () => null, width: 92, order: "" },
    hint: "Target’s metric over training time, up to the target’s dashed line. Runs of one benchmark have one scale.",
  },
  duration: { title: "Duration", value: elapsedSeconds, width: 96 },
  created: { title: "Created", value: (run) => run.created_at, width: 96 },
  training: { title: "Training time" },
  accuracy: { title: "Best accuracy" },
  tag: { title: "Tags" },
  id: { title: "Id", value: (run) => run.id },
  [DIFFERING]: { title: "Settings that differ", value: () => null },
};
const STATISTICS = { last: "last", min: "lowest", max: "highest" };

/** @returns {string} what people call a field. */
export function titleOf(/** @type {string} */ id) {
  if (KNOWN[id]) return KNOWN[id].title;
  const [, metric, statistic] = id.match(/^(.+)\.(last|min|max)$/) ?? [];
  if (statistic) return `${format.metricTitle(metric)}, ${STATISTICS[statistic]}`;
  const title = format.metricTitle(id);
  return title === id && /^[a-z]+(_[a-z]+)*$/.test(id) ? (id[0].toUpperCase() + id.slice(1)).replaceAll("_", " ") : title;
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
  return { [`-${field}`]: field, [field]: "" }[order] ?? `-${field}`;
}

/** @returns {(value: any) => string} writes the values of a field, aligned and in one unit. */
export function writerOf(/** @type {string} */ id, /** @type {any[]} */ values, unit = "", isSetting = false) {
  if (SHARES.includes(id)) return (value) => format.percent(value);
  if (!values.every((value) => value == null || typeof value === "number") || isSetting) return textOf;
  if (unit === "s") return format.alignedDurations(values);
  return values.every((value) => value == null || Number.isInteger(value)) ? format.count : format.alignedNumbers(values);
}

function settingOf(/** @type {Run} */ run, /** @type {string} */ name) {
  const value = run.settings?.[name] ?? run.args[name] ?? run.swept[name] ?? null;
  return typeof value === "string" && value.trim() && Number.isFinite(Number(value)) ? Number(value) : value;
}

/** @returns {string[]} the settings that distinguish these runs, requested settings first. */
export function differingSettings(/** @type {Run[]} */ runs) {
  const named = runs.flatMap((run) => Object.keys({ ...run.swept, ...run.args, ...run.settings }).map((name) => ({ name, run })));
  const settings = Object.entries(Object.groupBy(named, ({ name }) => name)).map(([name, known]) => {
    const asked = known.filter(({ run }) => name in run.swept || name in run.args).length;
    const isKnown = known.length >= MIN_COMMON * runs.length && !FACTS.includes(name);
    return { name, asked, isApart: isKnown && new Set(known.map(({ run }) => settingOf(run, name))).size > 1 };
  });
  const apart = settings.filter(({ isApart }) => isApart).sort((a, b) => b.asked - a.asked);
  return apart.slice(0, MAX_DIFFERING).map(({ name }) => name);
}

/** @returns {string[]} with or without one of them */
export function toggled(/** @type {string[]} */ ids, /** @type {string} */ id) {
  return ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id];
}

/** @returns {Column<Run>[]} the columns before the chosen ones: checkbox, colour, name. */
export function headColumns(/** @type {import("./selection.js").Selection} */ selection, /** @type {string} */ title, width = 0) {
  const selector = (/** @type {Run} */ { id }) =>
    h("label", {}, h("input", { type: "checkbox", value: id, "aria-label": `Select run ${id}`, checked: selection.has(id) }));
  return [
    { id: "select", title: "Select", width: 36, ...CONTROL, cell: selector },
    { id: "eye", title: "Shown in the charts", width: 26, ...CONTROL, cell: ({ id }) => selection.eye(id) },
    {
      ...{ id: "name", title, order: "name", isHead: true, isPinned: true, width: width || 176, isResized: width > 0 },
      ...{ cell: nameOf, props: (run) => ({ title: aboutOf(run) }) },
    },
  ];
}

/** @returns {Record<string, Partial<Column<Run>>>} columns that draw their cells. */
export function cellsOf(/** @type {import("./curves.js").Curves} */ curves) {
  const lastOf = (/** @type {Run} */ run) => (run.outcome ? null : curves.of(run)?.values.at(-1));
  return {
    outcome: { cell: (run) => badge(...outcomeOf(run, run.values.best ?? lastOf(run))) },
    contention: {
      cell: (run) => run.disturbed && h("i", { class: "runs-contention", role: "img", "aria-label": disturbedText(run), title: disturbedText(run) }),
    },
    curve: { cell: (run) => curves.draw(run) },
    created: AGE,
  };
}

function nameOf(/** @type {Run} */ { id, title, tags }) {
  const at = PLAIN.test(title) ? title.length - END_LENGTH : 0;
  const link = h("a", { href: `/runs/${id}` }, h("bdi", {}, h("span", {}, title.slice(0, at)), h("span", {}, title.slice(at))));
  const links = tags.map((tag) => h("a", { href: queryOf(`tag:${tag}`) }, tag));
  return h("div", { class: "runs-name" }, link, h("span", { class: "soft" }, `#${id}`), h("span", { class: "runs-tags" }, links));
}

function aboutOf(/** @type {Run} */ run) {
  return [run.title, sweptOf(run), originOf(run), run.replaced_by && `replaced by run ${run.replaced_by}`].filter(Boolean).join("\n");
}

/** @returns {string} what the mark of a disturbed run says; the run may only have been profiled or stopped */
export const disturbedText = (/** @type {Run} */ { contention_share: share }) =>
  `Disturbed: results may be distorted; CPU contention ${format.percent(share)}`;

/** The columns that a user has chosen, as the address says or this browser remembers. */
export class Columns {
  #stored = readStored();
  /** @type {string[]} */
  ids = listed("columns") ?? this.#stored.ids ?? DEFAULTS;
  /** @type {Record<string, number>} */
  widths = this.#stored.widths ?? {};
  /** @type {string[]} */
  pinned = this.#stored.pinned ?? [];
  order = getParam("order");
  group = listed("group") ?? [];
  /** @type {RunField[]} */
  fields = [];

  constructor(/** @type {() => void} */ onChange) {
    this.onChange = onChange;
  }

  /** @returns {string[]} the fields whose values the API must send. */
  requested() {
    return [...new Set(["best", ...this.ids])].filter((id) => !KNOWN[id]?.value);
  }

  /** Move a column before another one; a setting that differs moves all of them. */
  move(/** @type {string} */ id, /** @type {string} */ before) {
    const [from, to] = [id, before].map((name) => this.ids.indexOf(this.ids.includes(name) ? name : DIFFERING));
    if (from >= 0 && to >= 0) this.set({ ids: this.ids.toSpliced(from, 1).toSpliced(to, 0, this.ids[from]) });
  }

  /** Change the chosen columns, and remember them. */
  set(/** @type {Partial<Columns>} */ changes) {
    const { ids, widths, pinned, order, group } = Object.assign(this, changes);
    const isDefault = ids.join() === DEFAULTS.join();
    localStorage.setItem(STORED, JSON.stringify({ ids: isDefault ? undefined : ids, widths, pinned }));
    setParams({ columns: isDefault ? "" : ids.join(","), order, group: group.join(",") });
    this.onChange();
  }

  /** @returns {Column<Run>[]} the chosen columns of these runs, pinned ones first; `cells` draws those that are not text. */
  toColumns(/** @type {Run[]} */ runs, /** @type {number} */ now, /** @type {Record<string, Partial<Column<Run>>>} */ cells) {
    // The benchmark comes first, where there are several.
    const several = new Set(runs.map(codeOf)).size > 1 ? ["benchmark"] : [];
    const differing = [...several, ...differingSettings(runs)].slice(0, MAX_DIFFERING).filter((name) => !this.ids.includes(name));
    const ids = this.ids.flatMap((id) => (id === DIFFERING ? differing : [id]));
    const columns = ids.map((id) => ({ ...this.#toColumn(id, runs, now, cells[id]), isPinned: this.pinned.includes(id) }));
    return columns.sort((a, b) => Number(b.isPinned) - Number(a.isPinned));
  }

  /** @returns {Column<Run>} */
  #toColumn(id, runs, now, cells) {
    const field = this.fields.find(({ name }) => name === id);
    const { value, ...known } = KNOWN[id] ?? {};
    const title = titleOf(id);
    const hint = [known.hint ?? field?.help, field && title !== id && `(${id})`].filter(Boolean).join(" ");
    const valueOf = (/** @type {Run} */ run) => (value ? value(run, now) : id in run.values ? run.values[id] : settingOf(run, id));
    const values = cells ? [] : runs.map(valueOf);
    const write = writerOf(id, values, field?.unit, field?.help === "Setting");
    const letters = known.width ? [] : values.slice(0, MAX_MEASURED).map((one) => VALUE_LETTER_PX * write(one).length);
    const width = Math.round(PADDING_PX + Math.max(LETTER_PX * title.length, Math.min(MAX_TEXT_PX - PADDING_PX, Math.max(0, ...letters))));
    const text = (/** @type {Run} */ run) => (["", null, undefined].includes(valueOf(run)) ? "" : write(valueOf(run)));
    // The style sheet draws a bar from it.
    const most = id === "goodput" ? 1 : id === "time_to_target" ? ninthTenth(values) || 1 : 0;
    return {
      ...{ id, title, order: id, width, ...known, hint },
      ...(this.widths[id] && { width: this.widths[id], isResized: true }),
      ...cells,
      isFigure: !cells && values.every((one) => one == null || typeof one === "number"),
      text,
      props: (run) => !cells && { title: text(run), style: most && { "--share": String(Math.min(1, Number(valueOf(run) ?? 0) / most)) } },
    };
  }
}

function readStored() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? {};
  } catch {
    return {}; // of another version, or edited
  }
}

/** @returns {string[] | undefined} the names in a parameter of the address; undefined without any. */
function listed(/** @type {string} */ param) {
  const names = new Set(getParam(param).match(/[^\s,]+/g));
  return names.size ? [...names] : undefined;
}
