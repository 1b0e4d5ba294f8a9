// The time breakdown of a run: a bar of all worker-seconds, and a table by rank and attempt.

import { showBars, showKey } from "../bars.js";
import { byId, setText } from "../dom.js";
import { duration, percent } from "../format.js";
import { PHASES, colourOfPhase } from "../records.js";
import { sum } from "../series.js";
import { figure, fillTable } from "../ui.js";

/** @import { Goodput as Record, Result } from "../records.js" */

// The key leaves out buckets that the bar cannot show; the table has them.
const MIN_SHARE = 0.0005;

/** The section "Time breakdown", and the table by rank and attempt. */
export class Goodput {
  #bar = byId("goodput-bar");
  #key = byId("goodput-key");
  #ranks = byId("breakdown");
  /** @type {[string, [string, string]][]} each bucket with its title and Google's name */
  #buckets = JSON.parse(byId("goodput").dataset.buckets);

  /** Show the time breakdown of a run so far, or until its end. */
  show(/** @type {Result | null} */ result) {
    const goodput = result?.goodput;
    for (const part of [this.#bar, this.#key, this.#ranks]) part.hidden = !goodput;
    byId("no-goodput").hidden = Boolean(goodput);
    if (!goodput) return;
    setText(byId("goodput-share"), summary(goodput));
    setText(byId("goodput-total"), `${duration(sum(Object.values(goodput.seconds)))} worker time`);
    const pieces = toPieces(goodput, this.#buckets, result.phases);
    showBars(this.#bar, [{ name: "All workers", text: duration(sum(Object.values(goodput.seconds))), pieces }]);
    const listed = pieces.filter(({ share }) => share >= MIN_SHARE);
    showKey(this.#key, listed.map(({ name, colour, text }) => ({ name, colour, text })));
    const shown = this.#buckets.filter(([bucket]) => bucket in goodput.seconds);
    /** @type {import("../ui.js").Column<Record["ranks"][number]>[]} */
    const columns = [
      { title: "Rank", isHead: true, text: ({ rank }) => String(rank) },
      figure("Attempt", ({ attempt }) => String(attempt)),
      ...shown.map(([bucket, [title, google]]) =>
        figure(title, ({ seconds }) => duration(seconds[bucket]), google && `Google: ${google}`),
      ),
    ];
    fillTable(byId("goodput-table"), columns, goodput.ranks, ({ rank, attempt }) => `${rank} ${attempt}`);
  }
}

/** @returns goodput by both definitions, and the time in the queue, which holds no workers. */
export function summary(/** @type {Record} */ { share, whole_step_share: whole, queued_seconds: queued }) {
  const shares = share === null ? [] : [`Goodput ${percent(share, 1)}`];
  if (whole != null) shares.push(`${percent(whole, 1)} counting whole steps`);
  if (queued >= 0.01) shares.push(`${duration(queued)} in the queue`);
  return shares.join(" · ");
}

/** @returns the pieces of the bar, with their shares; the phases of compute are in its hint. */
export function toPieces(/** @type {Record} */ { seconds }, buckets, /** @type {Result["phases"]} */ phases) {
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
