// What each rank of a run has done, from the newest values that it recorded. Pure.

import { PHASES } from "../names.js";
import { mean } from "./curves.js";

// Training in none of them stands before evaluation, which is none.
export const SHOWN = PHASES.flatMap((phase) => (phase === "evaluation" ? ["other", phase] : [phase]));
// Below this, one rank is as fast as another.
const SLOWER = 1.02;

/**
 * Times are seconds; what a rank has not recorded is null.
 * @typedef {{
 *   rank: number, pod: string | null, exitCode: number | null, steps: number | null,
 *   samples: number | null, stepSeconds: number | null, computeSeconds: number | null,
 *   communicationShare: number | null, phases: Record<string, number>, isSlowest: boolean
 * }} RankFigures
 */

/**
 * @param {{ rank: number, pod: string, exit_code: number | null }[]} ranks of the run
 * @param {Map<string, Map<number | null, number>>} last values by metric and rank
 * @returns {RankFigures[]}
 */
export function rankFigures(ranks, last) {
  const figures = ranks.map((rank) => figuresOf(rank, last));
  const slowest = slowestOf(figures);
  return figures.map((one) => ({ ...one, isSlowest: one === slowest }));
}

/** @returns {Record<string, number>} the phases of a rank on average; none where none has any. */
export function meanPhases(/** @type {RankFigures[]} */ figures) {
  const known = figures.map((one) => one.phases).filter((phases) => Object.keys(phases).length);
  const names = SHOWN.filter((phase) => known.some((phases) => phase in phases));
  return Object.fromEntries(names.map((name) => [name, mean(known.map((one) => one[name] ?? 0))]));
}

/** @returns {number} what a step takes, communication left out where it is known. */
export function slowness(/** @type {RankFigures} */ one) {
  return one.computeSeconds ?? one.stepSeconds ?? -1;
}

function figuresOf({ rank, pod, exit_code: exitCode }, last) {
  const of = (metric) => last.get(metric)?.get(rank) ?? null;
  const [steps, seconds, communication] = [
    of("step"),
    of("train_seconds"),
    of("communication_seconds"),
  ];
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
  if (!known.length || seconds === null) return Object.fromEntries(known);
  // Evaluation is no training time.
  const inPhases = known.reduce(
    (sum, [name, value]) => (name === "evaluation" ? sum : sum + value),
    0,
  );
  return { ...Object.fromEntries(known), other: Math.max(0, seconds - inPhases) };
}

function slowestOf(figures) {
  const order = figures
    .filter((one) => slowness(one) > 0)
    .sort((a, b) => slowness(b) - slowness(a));
  const median = order[Math.floor(order.length / 2)];
  return order.length > 1 && slowness(order[0]) > SLOWER * slowness(median) ? order[0] : null;
}
