// The time breakdown of a run: a bar of all worker-seconds, and a table by rank and attempt.

import { showBars, showKey } from "../bars.js";
import { byId, setText } from "../dom.js";
import { duration, percent } from "../format.js";
import { PHASES, colourOfPhase } from "../records.js";
import { sum } from "../series.js";
import { figure, fillTable } from "../ui.js";

/**
 * Each bucket with its title and Google's name.
 * @typedef {[string, [string, string]][]} Buckets
 */

// The key leaves out buckets that the bar cannot show; the table has them.
const MIN_SHARE = 0.0005;

/** Show the time breakdown of a run so far, or until its end. */
export function showGoodput(/** @type {Result} */ { goodput, phases }) {
  const [bar, key] = [byId("goodput-bar"), byId("goodput-key")];
  for (const part of [bar, key, byId("breakdown")]) part.hidden = !goodput;
  byId("no-goodput").hidden = Boolean(goodput);
  if (!goodput) return;
  /** @type {Buckets} */
  const buckets = JSON.parse(byId("goodput").dataset.buckets);
  const total = duration(sum(Object.values(goodput.seconds)));
  const pieces = toPieces(goodput, buckets, phases);
  setText(byId("goodput-share"), summary(goodput));
  setText(byId("goodput-total"), `${total} worker time`);
  showBars(bar, [{ name: "All workers", text: total, pieces }]);
  showKey(key, pieces.filter(({ share }) => share >= MIN_SHARE));
  const columns = [
    { title: "Rank", isHead: true, text: ({ rank }) => String(rank) },
    figure("Attempt", ({ attempt }) => String(attempt)),
    ...buckets.filter(([bucket]) => bucket in goodput.seconds).map(([bucket, [title, google]]) =>
      figure(title, ({ seconds }) => duration(seconds[bucket]), google && `Google: ${google}`),
    ),
  ];
  fillTable(byId("goodput-table"), columns, goodput.ranks, ({ rank, attempt }) => `${rank} ${attempt}`);
}

/** @returns goodput by both definitions, and the time in the queue, which holds no workers. */
export function summary(/** @type {Goodput} */ { share, whole_step_share: whole, queued_seconds: queued }) {
  const shares = share === null ? [] : [`Goodput ${percent(share, 1)}`];
  if (whole != null) shares.push(`${percent(whole, 1)} counting whole steps`);
  if (queued >= 0.01) shares.push(`${duration(queued)} in the queue`);
  return shares.join(" · ");
}

/** @returns the pieces of the bar, with their shares; the phases of compute are in its hint. */
export function toPieces(/** @type {Goodput} */ { seconds }, /** @type {Buckets} */ buckets, /** @type {Result["phases"]} */ phases) {
  const whole = sum(Object.values(seconds));
  return buckets.filter(([bucket]) => bucket in seconds).map(([bucket, [name]]) => {
    const share = seconds[bucket] / whole;
    const text = `${duration(seconds[bucket])} · ${percent(share, 1)}`;
    const parts = PHASES.slice(1, 7).filter((phase) => phase !== "communication" && phases[phase] > 0);
    const within = bucket === "compute" ? parts.map((phase) => `${phase} ${duration(phases[phase])}`) : [];
    const hint = [`${name} ${text}`, ...(within.length ? [`mean per rank: ${within.join(", ")}`] : [])].join("; ");
    return { name, value: seconds[bucket], share, colour: colourOfBucket(bucket), text, hint };
  });
}

/** @returns {string | undefined} the colour of a bucket; undefined for unknown time, which is hatched. */
export function colourOfBucket(/** @type {string} */ bucket) {
  return colourOfPhase(bucket) ?? (bucket === "unknown" ? undefined : `--bucket-${bucket}`);
}
