// What each rank has done: the sections "Where the time goes" and "Ranks".

import { byId, h, reconcile, setText } from "../dom.js";
import { NONE, count, duration, percent } from "../format.js";
import { PHASES } from "../records.js";
import { mean, sum } from "../series.js";

/** @typedef {import("../records.js").Rank} Rank */

// Training time outside all phases is "other"; evaluation is no training time, and comes after it.
const SHOWN = PHASES.flatMap((phase) => (phase === "evaluation" ? ["other", phase] : [phase]));
// A rank that is slower than the others by less than this is not marked.
const SLOWER = 1.02;

/**
 * Times are seconds; null stands for what a rank has not recorded. The slowest rank has a factor:
 * how many times as long it takes for a step as the median of the others.
 * @typedef {{
 *   rank: number, pod: string | null, exitCode: number | null, steps: number | null,
 *   samples: number | null, stepSeconds: number | null, computeSeconds: number | null,
 *   communicationShare: number | null, phases: Record<string, number>, factor: number | null
 * }} RankFigures
 */

/**
 * @param {Rank[]} ranks of the workers
 * @param {Map<string, Map<number | null, number>>} last values by metric and rank
 * @returns {RankFigures[]}
 */
export function rankFigures(ranks, last) {
  const processes = ranks.flatMap((one) => one.processes.map((rank) => ({ ...one, rank })));
  const figures = processes.map((process) => figuresOf(process, last));
  const slowest = slowestOf(figures);
  return figures.map((one) => ({ ...one, factor: one === slowest?.one ? slowest.factor : null }));
}

function figuresOf(/** @type {Rank} */ { rank, pod, exit_code: exitCode }, last) {
  const of = (metric) => last.get(metric)?.get(rank) ?? null;
  const [steps, seconds] = [of("step"), of("train_seconds")];
  const communication = of("communication_seconds");
  const isKnown = seconds > 0 && communication !== null;
  return {
    rank,
    pod,
    exitCode,
    steps,
    samples: of("samples"),
    stepSeconds: steps && seconds !== null ? seconds / steps : null,
    computeSeconds: steps && isKnown ? (seconds - communication) / steps : null,
    communicationShare: isKnown ? communication / seconds : null,
    phases: phasesOf(of, seconds),
  };
}

function phasesOf(of, seconds) {
  const known = SHOWN.map((phase) => [phase, of(`${phase}_seconds`)]).filter(([, value]) => value);
  const phases = Object.fromEntries(known);
  if (!known.length || seconds === null) return phases;
  const { evaluation: _, ...training } = phases;
  return { ...phases, other: Math.max(0, seconds - sum(Object.values(training))) };
}

// The time of a step; without communication, if that is known.
function slowness(one) {
  return one.computeSeconds ?? one.stepSeconds ?? -1;
}

function slowestOf(figures) {
  const known = figures.filter((one) => slowness(one) > 0);
  const [one, ...others] = known.sort((a, b) => slowness(b) - slowness(a));
  const middle = [others[(others.length - 1) >> 1], others[others.length >> 1]];
  const factor = others.length ? slowness(one) / mean(middle.map(slowness)) : 0;
  return factor > SLOWER ? { one, factor } : null;
}

// The mean of each phase over the ranks that recorded any.
function meanPhases(/** @type {RankFigures[]} */ figures) {
  const known = figures.map((one) => one.phases).filter((phases) => Object.keys(phases).length);
  const names = SHOWN.filter((phase) => known.some((phases) => phase in phases));
  return Object.fromEntries(names.map((name) => [name, mean(known.map((one) => one[name] ?? 0))]));
}

/** The section "Where the time goes": one bar per rank, divided into phases. */
export class Phases {
  /** @type {RankFigures[]} */
  #figures = [];
  #unit = byId("phases-unit");
  #legend = byId("phases-legend");
  #rows = byId("phases-rows");

  constructor() {
    this.#unit.addEventListener("change", () => this.show(this.#figures));
  }

  /** Show the phases of these ranks. */
  show(/** @type {RankFigures[]} */ figures) {
    this.#figures = figures;
    const average = meanPhases(figures);
    const hasAny = Object.keys(average).length > 0;
    for (const part of [this.#legend, this.#rows, this.#unit]) part.hidden = !hasAny;
    byId("no-phases").hidden = hasAny;
    if (!hasAny) return;
    this.#showLegend(average);
    const rows = [
      { name: "Mean", phases: average },
      ...figures.map(({ rank, phases }) => ({ name: `Rank ${rank}`, phases })),
    ].filter(({ phases }, i) => Object.keys(phases).length && (i || figures.length > 1));
    const isShare = this.#unit.querySelector(":checked").value === "share";
    const longest = Math.max(...rows.map((row) => total(row.phases)));
    reconcile(this.#rows, rows, (row) => row.name, createBar, (element, row) =>
      updateBar(element, row, isShare ? total(row.phases) : longest),
    );
  }

  #showLegend(average) {
    const all = total(average);
    const create = (/** @type {[string, number]} */ [name]) =>
      h("li", { "data-phase": name }, h("b", {}, name), " ", h("span", { class: "soft" }));
    const entries = Object.entries(average);
    reconcile(this.#legend, entries, ([name]) => name, create, (item, [, seconds]) =>
      setText(item.lastElementChild, `${percent(seconds / all, 1)} · ${duration(seconds)}`),
    );
  }
}

function createBar(/** @type {{ name: string, phases: Record<string, number> }} */ { name }) {
  return h(
    "div",
    { class: "phases-row" },
    h("span", { class: "phases-name" }, name),
    h("div", { class: "phases-bar", role: "img" }),
    h("span", { class: "phases-total soft" }),
  );
}

function updateBar(element, { name, phases }, whole) {
  const [, bar, end] = element.children;
  const pieces = SHOWN.filter((phase) => phases[phase] > 0);
  const all = total(phases);
  const create = (phase) => h("span", { "data-phase": phase });
  reconcile(bar, pieces, String, create, (piece, phase) => {
    piece.style.width = `${(100 * phases[phase]) / whole}%`;
    piece.title = `${phase}: ${duration(phases[phase])}, ${percent(phases[phase] / all, 1)}`;
  });
  const words = pieces.map((phase) => `${phase} ${percent(phases[phase] / all)}`);
  bar.setAttribute("aria-label", `${name}: ${words.join(", ")}`);
  setText(end, duration(all));
}

function total(/** @type {Record<string, number>} */ phases) {
  return sum(Object.values(phases));
}

const COLUMNS = [
  { text: (one) => one.rank },
  { text: (one) => one.pod ?? NONE, class: "pod" },
  { text: (one) => one.exitCode ?? NONE, class: "figure" },
  { text: (one) => count(one.steps), class: "figure" },
  { text: (one) => duration(one.stepSeconds), class: "figure" },
  { text: (one) => duration(one.computeSeconds), class: "figure" },
  { text: (one) => percent(one.communicationShare, 1), class: "figure" },
  { text: (one) => count(one.samples), class: "figure" },
];

/** The section "Ranks": where each rank ran, how it ended, and how fast it is. */
export class Ranks {
  /** @type {RankFigures[]} */
  #figures = [];
  #order = byId("ranks-order");

  constructor() {
    this.#order.addEventListener("change", () => this.show(this.#figures));
  }

  /** Show these ranks. */
  show(/** @type {RankFigures[]} */ figures) {
    this.#figures = figures;
    byId("no-ranks").hidden = figures.length > 0;
    byId("ranks-table").hidden = figures.length === 0;
    byId("ranks-order-choice").hidden = figures.length < 2;
    const isSlowestFirst = this.#order.value === "slowest";
    const rows = isSlowestFirst ? figures.toSorted((a, b) => slowness(b) - slowness(a)) : figures;
    reconcile(byId("ranks-rows"), rows, (one) => one.rank, createRow, updateRow);
  }
}

function createRow() {
  const mark = h("span", { class: "mark" });
  return h(
    "tr",
    {},
    ...COLUMNS.map((column, i) => h("td", { class: column.class }, h("span"), i === 0 && mark)),
  );
}

function updateRow(row, /** @type {RankFigures} */ one) {
  COLUMNS.forEach((column, i) => setText(row.children[i].firstElementChild, column.text(one)));
  row.classList.toggle("has-failed", one.exitCode !== null && one.exitCode !== 0);
  setText(row.querySelector(".mark"), one.factor ? `slowest, ${one.factor.toFixed(2)} ×` : "");
}
