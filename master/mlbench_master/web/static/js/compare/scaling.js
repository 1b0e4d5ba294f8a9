// How groups scale: speed-ups over the number of workers, and the time in each phase.

import { duration } from "../format.js";
import { PHASES, colourOfPhase } from "../records.js";
import { sum } from "../series.js";

/** @returns {import("../plot.js").Line[]} the speed-ups and the ideal; empty if nothing scales. */
export function toSpeedups(/** @type {Group[]} */ groups) {
  const workers = groups.map((group) => group.num_workers);
  if (groups.length < 2 || new Set(workers).size < groups.length) return [];
  const measured = [
    { name: "time to target", y: groups.map((group) => group.speedup), colour: "--series-0" },
    { name: "throughput", y: groups.map((group) => group.throughput_speedup), colour: "--series-1" },
    // A single speed-up, of the first group, is always 1.
  ].filter(({ y }) => y.filter((value) => value !== null).length > 1);
  if (!measured.length) return [];
  const dash = /** @type {const} */ ("dash");
  const ideal = { name: "ideal", x: workers, y: workers.map((count) => count / workers[0]), colour: "--soft", dash };
  return [ideal, ...measured.map((line) => ({ ...line, x: workers, points: true }))];
}

/** @returns {import("../bars.js").Bar[]} the seconds of each group in each phase. */
export function toPhases(/** @type {Group[]} */ groups) {
  const rest = new Set(groups.flatMap((group) => Object.keys(group.phases)));
  const names = [...PHASES.filter((name) => rest.delete(name)), ...[...rest].sort()];
  return groups.map(({ label, phases }) => ({
    name: label,
    text: duration(sum(Object.values(phases))),
    pieces: names.filter((name) => name in phases).map((name) => ({
      name,
      value: phases[name],
      colour: colourOfPhase(name),
      hint: `${name} ${duration(phases[name])}`,
    })),
  }));
}
