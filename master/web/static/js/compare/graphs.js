// What the bars and lines of a comparison show. Pure.

import { PHASES } from "../names.js";
import { labelOf, lookOf } from "./view.js";

const COLOURS = ["--series-0", "--series-1"];

/**
 * Bars, and how to read them.
 * @typedef {{ rows: string[], parts: import("../chart.js").Bars[], axis: string, note: string }} Graph
 */

/**
 * @returns {Graph} a bar for each group where
 * a group has several runs, with whiskers from its fastest to its slowest; else one for each run
 */
export function toBars(/** @type {object} */ comparison) {
  const { groups, results } = comparison;
  const clock = results.some((one) => one.time_to_accuracy?.training_seconds != null)
    ? "training_seconds"
    : "wall_seconds";
  const axis = `${clock === "training_seconds" ? "training time" : "time since the start"} [s]`;
  const ofGroups = groups.map((group) => groupBar(group, clock));
  const isGrouped =
    groups.some((group) => group.run_ids.length > 1) && ofGroups.some((bar) => bar.value !== null);
  const bars = isGrouped ? ofGroups : results.map((result) => runBar(result, clock));
  if (bars.every((bar) => bar.value == null)) {
    return { rows: [], parts: [], axis, note: "No run has reached its goal." };
  }
  const note = isGrouped
    ? "The mean of each group's runs, with the fastest and the slowest; the shorter, the better."
    : "The shorter, the better.";
  const part = {
    name: "Time to accuracy",
    values: bars.map((bar) => bar.value),
    lows: isGrouped ? bars.map((bar) => bar.low) : undefined,
    highs: isGrouped ? bars.map((bar) => bar.high) : undefined,
    colours: isGrouped ? undefined : results.map((_, i) => lookOf(i).colour),
  };
  return { rows: bars.map((bar) => bar.name), parts: [part], axis, note };
}

function groupBar(group, clock) {
  const times = group[`${clock}_to_accuracy`];
  const [reached, runs] = [group.reached, group.run_ids.length];
  return {
    name: reached < runs ? `${group.label} (${reached} of ${runs} reached)` : group.label,
    // Where a run that did not reach the goal would have to be counted, there is no mean.
    value: times?.mean ?? null,
    low: times?.minimum ?? null,
    high: times?.maximum ?? null,
  };
}

function runBar(result, clock) {
  const value = result.time_to_accuracy?.[clock] ?? null;
  return { name: value == null ? `${labelOf(result)} (not reached)` : labelOf(result), value };
}

/** @returns {import("../chart.js").Line[]} speed-ups and the ideal, if groups scale at all. */
export function toSpeedups(/** @type {object[]} */ groups) {
  const workers = groups.map((group) => group.num_workers);
  if (groups.length < 2 || new Set(workers).size < groups.length) return [];
  const measured = [
    { name: "time to accuracy", values: groups.map((group) => group.speedup), colour: COLOURS[0] },
    {
      name: "throughput",
      values: groups.map((group) => group.throughput_speedup),
      colour: COLOURS[1],
    },
    // The first group alone is compared with itself.
  ].filter(({ values }) => values.filter((value) => value !== null).length > 1);
  if (!measured.length) return [];
  const ideal = workers.map((count) => count / workers[0]);
  const lines = measured.map(({ values, ...line }) => ({
    ...line,
    x: workers,
    y: values,
    points: true,
  }));
  return [{ name: "ideal", x: workers, y: ideal, colour: "--soft", dash: "dash" }, ...lines];
}

/** @returns {import("../chart.js").Bars[]} seconds of each phase in each group. */
export function toPhases(/** @type {object[]} */ groups) {
  const found = new Set(groups.flatMap((group) => Object.keys(group.phases)));
  const names = [...PHASES.filter((name) => found.delete(name)), ...[...found].sort()];
  return names.map((name) => ({
    name,
    values: groups.map((group) => group.phases[name] ?? 0),
    colour: PHASES.includes(name) ? `--phase-${name}` : "--edge",
    hatched: !PHASES.includes(name),
  }));
}
