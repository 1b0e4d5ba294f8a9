// How many samples a second a run trains, from the totals that its ranks record. Pure.

import { counterAt } from "./curves.js";

/** @typedef {import("../series.js").Series} Series */

/**
 * @param {Map<number | null, Series>} samples totals by rank
 * @param {Map<number | null, Series>} clocks seconds of training by rank; where there are none,
 *   time itself counts
 * @returns {{ times: number[], values: number[] }} samples per second of all ranks, from each time
 *   to the next one; the last is where it ends
 */
export function throughput(samples, clocks) {
  const ranks = [...samples].map(([rank, series]) => intervals(series, clocks.get(rank)));
  const grid = ranks.reduce((longest, one) => (one.length > longest.length ? one : longest), []);
  const times = [];
  const values = [];
  for (const { from, to } of grid) {
    times.push(from);
    values.push(ranks.reduce((total, one) => total + rateAt(one, (from + to) / 2), 0));
  }
  if (grid.length) {
    times.push(grid.at(-1).to);
    values.push(values.at(-1));
  }
  return { times, values };
}

function intervals(samples, clock) {
  const { times, lows: totals } = samples;
  const seconds = clock ? counterAt(clock, times) : times.map((time) => time / 1000);
  const found = [];
  for (let i = 1; i < times.length; i++) {
    const rate = (totals[i] - totals[i - 1]) / (seconds[i] - seconds[i - 1]);
    // After a restart, totals begin anew.
    if (rate > 0 && Number.isFinite(rate)) found.push({ from: times[i - 1], to: times[i], rate });
  }
  return found;
}

function rateAt(rates, time) {
  let low = 0;
  let high = rates.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rates[middle].to < time) low = middle + 1;
    else high = middle;
  }
  const found = rates[low];
  return found && found.from <= time && time <= found.to ? found.rate : 0;
}
