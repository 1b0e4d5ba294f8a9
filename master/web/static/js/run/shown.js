// Which ranks the curves show: one, each, or all of them as their mean with its range.

import { h } from "../dom.js";
import { areSame, combine, mean } from "./curves.js";

/** @typedef {import("../series.js").Series} Series */

const ALL = "all";
const EACH = "each";
// More lines are no longer told apart, and more ranks take long to fetch.
const MOST_LINES = 8;
const MOST_AT_FIRST = 16;

/**
 * Give a select the choices that suit so many ranks; of one rank there is nothing to choose.
 * @param {HTMLSelectElement} select
 * @param {number} ranks
 */
export function offer(select, ranks) {
  const one = Array.from({ length: ranks }, (_, rank) => [String(rank), `Rank ${rank}`]);
  const all = [ALL, "All: mean and range"];
  const each = [EACH, "All: one line each"];
  const choices = [...(ranks > 1 ? [all] : []), ...(ranks > MOST_LINES ? [] : [each]), ...one];
  select.replaceChildren(...choices.map(([value, text]) => h("option", { value }, text)));
  select.value = ranks > MOST_AT_FIRST || ranks === 1 ? "0" : ALL;
}

/** @returns {boolean} whether the curves are those of several ranks. */
export function isOfAll(/** @type {string} */ chosen) {
  return chosen === ALL || chosen === EACH;
}

/**
 * @param {string[]} metrics
 * @param {string} chosen
 * @param {(metric: string) => boolean} hasRanks
 * @returns {string[]} what to ask of these metrics: the chosen rank's series, or all ranks'
 */
export function filtersOf(metrics, chosen, hasRanks) {
  const isWhole = (metric) => isOfAll(chosen) || !hasRanks(metric);
  return metrics.map((metric) => (isWhole(metric) ? metric : `${metric} @ ${chosen}`));
}

/**
 * @param {string} metric
 * @param {Map<number | null, Series>} ranks its series
 * @param {string} chosen
 * @returns {{ name: string, rank: number | null, series: Series }[]} the curves to draw
 */
export function curvesOf(metric, ranks, chosen) {
  const isWanted = (rank) => isOfAll(chosen) || rank === Number(chosen) || rank === null;
  const wanted = [...ranks].filter(([rank]) => isWanted(rank));
  if (!wanted.length) return [];
  const all = wanted.map(([, series]) => series);
  const [rank, longest] = longestOf(wanted);
  if (areSame(all)) return [{ name: metric, rank, series: longest }];
  if (chosen === ALL)
    return [{ name: `${metric}, mean`, rank, series: combine(longest, all, mean) }];
  return wanted.map(([rank, series]) => ({
    name: rank === null ? metric : `${metric}, rank ${rank}`,
    rank,
    series,
  }));
}

function longestOf(ranks) {
  return ranks.reduce((longest, one) =>
    one[1].times.length > longest[1].times.length ? one : longest,
  );
}
