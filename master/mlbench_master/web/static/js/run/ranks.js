// What each rank has done: the sections "Where the time goes" and "Ranks".

import { showBars, showKey } from "../bars.js";
import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import { NONE, bytes, count, duration, percent } from "../format.js";
import { PHASES, UNTRAINED, colourOfPhase } from "../records.js";
import { sum } from "../series.js";

/**
 * @import { Rank, Result } from "../records.js"
 * @typedef {Result["ranks"][number]} RankResult
 */

// Training time outside all phases is "other"; what is no training time comes after it.
const SHOWN = [...PHASES.filter((phase) => !UNTRAINED.includes(phase)), "other", ...UNTRAINED];
const NO_PHASES = "The run recorded no phases: the tracker’s phase() does it.";

/**
 * A rank: where it ran, how it ended, what its result says, and its factor if it is the slowest.
 * @typedef {{
 *   rank: number, worker: Rank, figures: RankResult | null, factor: number | null
 * }} RankFigures
 */

/**
 * @param {Rank[]} workers
 * @param {Pick<Result, "ranks" | "slowest"> | null} result
 * @returns {RankFigures[]}
 */
export function rankFigures(workers, result) {
  const known = new Map(result?.ranks.map((one) => [one.rank, one]));
  const factorOf = (rank) => (result?.slowest?.rank === rank ? result.slowest.factor : null);
  const toFigures = (worker, rank) => {
    return { rank, worker, figures: known.get(rank) ?? null, factor: factorOf(rank) };
  };
  return workers.flatMap((worker) => worker.processes.map((rank) => toFigures(worker, rank)));
}

// The time of a step; without communication, if that is known.
function slowness(/** @type {RankFigures} */ { figures }) {
  return figures?.compute_seconds ?? figures?.step_seconds ?? -1;
}

/** The section "Where the time goes": one bar per rank, divided into phases. */
export class Phases {
  /** @type {Result | null} */
  #result = null;
  #unit = byId("phases-unit");
  #key = byId("phases-key");
  #rows = byId("phases-rows");

  constructor() {
    this.#unit.addEventListener("change", () => this.show(this.#result, true));
  }

  /** Show the phases of a run's ranks so far, or at its end. */
  show(/** @type {Result | null} */ result, /** @type {boolean} */ hasEnded) {
    this.#result = result;
    const average = result?.phases ?? {};
    const hasAny = Object.keys(average).length > 0;
    for (const part of [this.#key, this.#rows, this.#unit]) part.hidden = !hasAny;
    setNotice(byId("no-phases"), hasAny ? "" : hasEnded ? NO_PHASES : "No phases so far.");
    if (!hasAny) return;
    const rows = [
      { name: "Mean", phases: average },
      ...result.ranks.map(({ rank, phases }) => ({ name: `Rank ${rank}`, phases })),
    ].filter(({ phases }, i) => Object.keys(phases).length && (i || result.ranks.length > 1));
    const isShare = this.#unit.querySelector(":checked").value === "share";
    const names = SHOWN.filter((phase) => phase in average);
    const textOf = (name) => `${shareOf(average, name)} · ${duration(average[name])}`;
    showKey(this.#key, names.map((name) => ({ name, colour: colourOfPhase(name), text: textOf(name) })));
    showBars(this.#rows, rows.map((row) => toBar(row, isShare)));
  }
}

function toBar(/** @type {{ name: string, phases: Record<string, number> }} */ { name, phases }, isShare) {
  const pieces = SHOWN.filter((phase) => phases[phase] > 0).map((phase) => ({
    name: phase,
    value: phases[phase],
    colour: colourOfPhase(phase),
    hint: `${phase} ${shareOf(phases, phase)}, ${duration(phases[phase])}`,
  }));
  return { name, text: duration(total(phases)), pieces, whole: isShare ? total(phases) : undefined };
}

// The share of a phase in the training time.
function shareOf(/** @type {Record<string, number>} */ phases, /** @type {string} */ phase) {
  if (UNTRAINED.includes(phase)) return "besides training";
  const untrained = sum(UNTRAINED.map((one) => phases[one] ?? 0));
  return percent(phases[phase] / (total(phases) - untrained), 1);
}

function total(/** @type {Record<string, number>} */ phases) {
  return sum(Object.values(phases));
}

const COLUMNS = [
  { text: ({ rank }) => rank },
  { text: ({ worker }) => worker.pod ?? NONE, class: "pod" },
  { text: ({ worker }) => worker.stopped || (worker.exit_code ?? NONE), class: "figure" },
  { text: ({ figures }) => count(figures?.steps), class: "figure" },
  { text: ({ figures }) => duration(figures?.step_seconds), class: "figure" },
  { text: ({ figures }) => duration(figures?.compute_seconds), class: "figure" },
  { text: ({ figures }) => percent(figures?.communication_share, 1), class: "figure" },
  { text: ({ figures }) => count(figures?.samples), class: "figure" },
  { text: ({ figures }) => bytes(figures?.network_sent_bytes), class: "figure" },
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
  row.classList.toggle("has-failed", Boolean(one.worker.exit_code) && !one.worker.stopped);
  setText(row.querySelector(".mark"), one.factor ? `slowest, ${one.factor.toFixed(2)} ×` : "");
}
