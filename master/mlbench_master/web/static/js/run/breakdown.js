// The time breakdown of a run: a bar of all worker time, a table by rank and attempt, and, over time, all
// workers as stacked areas, with discarded steps below the axis.

import { get } from "../api.js";
import { showBars, showKey } from "../bars.js";
import { Chart } from "../chart.js";
import { byId, setNotice, setText } from "../dom.js";
import { alignedDurations, duration, number, percent, plural } from "../format.js";
import { fillDot, strokeLine } from "../plot.js";
import { PHASES, colourOfPhase } from "../records.js";
import { sum } from "../series.js";
import * as theme from "../theme.js";
import { figure, fillTable } from "../ui.js";

/**
 * @import { Surface } from "../plot.js"
 * @import { Axis } from "./curves.js"
 */

// The key leaves out buckets that the bar cannot show; the table has them.
const MIN_SHARE = 0.0005;
const BINS = 240;
// Shares of the height above and below the areas, for the names of attempts and for branches.
const PAD = 0.1;
// The bucket that is drawn below the axis: a discarded branch.
const BELOW = "lost";
// Work is at the axis and overhead above it, so that work is a band without steps.
const LOWEST = ["compute", "data", "contention", "communication", "waiting"];

/** @returns {[string, [string, string]][]} each bucket with its title and Google's name. */
const readBuckets = () => JSON.parse(byId("goodput").dataset.buckets);

/** Show the time breakdown of a run so far, or until its end. */
export function showGoodput(/** @type {Result} */ { goodput, phases }) {
  const [bar, key] = [byId("goodput-bar"), byId("goodput-key")];
  for (const part of [bar, key, byId("breakdown")]) part.hidden = !goodput;
  byId("no-goodput").hidden = Boolean(goodput);
  if (!goodput) return;
  const buckets = readBuckets().filter(([bucket]) => bucket in goodput.seconds);
  const whole = sum(Object.values(goodput.seconds));
  // The phases of compute are in its hint.
  const computing = PHASES.slice(1, 7).filter((phase) => phase !== "communication" && phases[phase] > 0);
  const within = computing.map((phase) => `${phase} ${duration(phases[phase])}`).join(", ");
  const pieces = buckets.map(([bucket, [name]]) => {
    const value = goodput.seconds[bucket];
    const text = `${duration(value)} · ${percent(value / whole, 1)}`;
    const hint = `${name} ${text}${bucket === "compute" && within ? `; mean per rank: ${within}` : ""}`;
    return { name, value, text, hint, colour: colourOfBucket(bucket) };
  });
  // By both definitions; the queue holds no workers.
  const shares = [
    goodput.share !== null && `Goodput ${percent(goodput.share, 1)}`,
    goodput.whole_step_share !== null && `${percent(goodput.whole_step_share, 1)} counting whole steps`,
    goodput.queued_seconds >= 0.01 && `${duration(goodput.queued_seconds)} in the queue`,
  ];
  setText(byId("goodput-share"), shares.filter(Boolean).join(" · "));
  setText(byId("goodput-total"), `${duration(whole)} worker time`);
  showBars(bar, [{ name: "All workers", text: duration(whole), pieces }]);
  showKey(key, pieces.filter(({ value }) => value >= MIN_SHARE * whole));
  // One unit, because the columns of a row add up.
  const write = alignedDurations(goodput.ranks.flatMap(({ seconds }) => Object.values(seconds)));
  const columns = [
    { title: "Rank", isHead: true, text: ({ rank }) => String(rank) },
    figure("Attempt", ({ attempt }) => String(attempt)),
    ...buckets.map(([bucket, [title, google]]) => figure(title, ({ seconds }) => write(seconds[bucket]), google && `Google: ${google}`)),
  ];
  fillTable(byId("goodput-table"), columns, goodput.ranks, ({ rank, attempt }) => `${rank} ${attempt}`);
}

/** @returns {string | undefined} the colour of a bucket; undefined for unknown time, which is hatched. */
function colourOfBucket(/** @type {string} */ bucket) {
  return colourOfPhase(bucket) ?? (bucket === "unknown" ? undefined : `--bucket-${bucket}`);
}

/** @returns {number[]} the edges of the bins in seconds since the start of the run. */
export function edgesOf(/** @type {Breakdown} */ { begin_seconds: begin, bin_seconds: length, seconds }) {
  const [first = []] = Object.values(seconds);
  return first.length ? [...first.map((_, i) => begin + i * length), begin + first.length * length] : [];
}

/**
 * Stack the buckets in an order, the discarded one from 0 downwards, all others from 0 upwards.
 * @returns {{ bucket: string, from: number[], to: number[] }[]} workers in each bin
 */
export function stackOf(/** @type {Breakdown} */ { seconds, bin_seconds: length }, /** @type {string[]} */ order) {
  let top = null;
  return order.filter((bucket) => bucket in seconds).map((bucket) => {
    const workers = seconds[bucket].map((value) => value / length);
    if (bucket === BELOW) return { bucket, from: workers.map(() => 0), to: workers.map((value) => -value) };
    const from = top ?? workers.map(() => 0);
    top = workers.map((value, i) => from[i] + value);
    return { bucket, from, to: top };
  });
}

const areaColour = (/** @type {string} */ bucket) => colourOfBucket(bucket) ?? "--edge";

/** The section "Time breakdown over time". */
export class BreakdownOverTime {
  #titles = new Map(readBuckets().map(([bucket, [title]]) => [bucket, title]));
  /** @type {Breakdown | null} */
  #breakdown = null;
  /** @type {ReturnType<typeof stackOf>} */
  #stack = [];
  #edges = [];
  #places = [];
  #chart = new Chart(byId("over-time-map"), "Time breakdown over time", { hasLegend: false, hasFiles: false });

  constructor(/** @type {number} */ runId) {
    this.path = `/api/runs/${runId}/breakdown/`;
    this.#chart.onCursor = (place) => this.#tell(place);
    this.#chart.place.setAttribute("aria-describedby", "over-time-value");
  }

  /** Fetch and draw the time breakdown of a run so far. */
  async refresh(/** @type {Run} */ run, /** @type {Axis} */ axis) {
    const breakdown = run.started_at ? await get(this.path, { bins: BINS }) : null;
    this.#breakdown = breakdown;
    this.#edges = breakdown ? edgesOf(breakdown) : [];
    const hasAny = this.#edges.length > 0;
    byId("over-time").hidden = !hasAny;
    setNotice(byId("no-over-time"), hasAny ? "" : "Available once the run has started.");
    if (!hasAny) return;
    const { attempts, discarded } = breakdown;
    const placesOf = (/** @type {number[]} */ seconds) => axis.place(seconds.map((second) => Date.parse(run.started_at) + second * 1000));
    this.#stack = stackOf(breakdown, [...new Set([...LOWEST, ...this.#titles.keys()])]);
    this.#places = placesOf(this.#edges);
    const below = discarded.length ? ` Below the axis: ${discarded.length === 1 ? "a discarded branch" : `${discarded.length} discarded branches`}, with the way back to the checkpoint.` : "";
    setText(byId("over-time-caption"), `Workers by what they did, in bins of ${duration(breakdown.bin_seconds)}; totals are recorded about once a second.${below}`);
    this.#tell(null);
    const finite = this.#places.filter(Number.isFinite);
    const ends = this.#stack.flatMap(({ to }) => to);
    const [least, most] = [Math.min(0, ...ends), Math.max(...ends)];
    const pad = PAD * (most - least);
    const begins = placesOf([...attempts]);
    const branches = discarded.map(({ begin_seconds, end_seconds }) => placesOf([begin_seconds, end_seconds]));
    const shares = this.#shares(null).map(({ name, text }) => `${name} ${text}`);
    this.#chart.draw([], {
      x: axis.title,
      shared: axis.shared,
      stacked: "last",
      extent: [finite[0], finite.at(-1)],
      yRange: [least - (discarded.length ? pad : 0), most + pad],
      yTicks: [0, Math.round(most)],
      moments: attempts.length > 1 ? begins.map((x, i) => ({ x, text: `attempt ${i + 1}` })) : [],
      label: [`Time breakdown of ${plural(run.num_workers, "worker")} over time`, ...shares].join(", "),
      paint: (surface) => surface.inside(() => this.#paint(surface, branches, least - pad / 2)),
    });
  }

  #paint(/** @type {Surface} */ { ctx, x, y, width }, /** @type {number[][]} */ branches, /** @type {number} */ depth) {
    const across = this.#places.map((place) => Math.round(x(place)));
    for (const { bucket, from, to } of this.#stack) {
      ctx.fillStyle = theme.colour(areaColour(bucket));
      // Outside of a clock, edges have no place.
      to.forEach((end, i) => across[i] <= across[i + 1] && ctx.fillRect(across[i], y(end), across[i + 1] - across[i], y(from[i]) - y(end)));
    }
    ctx.fillStyle = theme.colour("--soft");
    ctx.fillRect(0, Math.round(y(0)), width, 1);
    // The way from the restart back to the checkpoint that it resumed from.
    ctx.strokeStyle = ctx.fillStyle = theme.colour("--bad");
    for (const [checkpoint, resumed] of branches.map((ends) => ends.map(x))) {
      strokeLine(ctx, [[resumed, y(0)], [resumed, y(depth)], [checkpoint, y(depth)], [checkpoint, y(0)]]);
      fillDot(ctx, checkpoint, y(0));
    }
  }

  #tell(/** @type {number | null} */ place) {
    const bin = place === null ? -1 : this.#places.findLastIndex((edge) => edge <= place);
    const isInside = bin >= 0 && bin < this.#edges.length - 1;
    showKey(byId("over-time-key"), this.#shares(isInside ? bin : null));
    if (!isInside) {
      setText(byId("over-time-value"), "Point at a time, or use the arrow keys. Drag to zoom.");
      return;
    }
    const attempt = this.#breakdown.attempts.filter((begin) => begin <= this.#edges[bin]).length;
    const of = this.#breakdown.attempts.length > 1 ? `, attempt ${Math.max(1, attempt)}` : "";
    const [from, to] = this.#edges.slice(bin, bin + 2).map((edge) => number(edge, 4));
    setText(byId("over-time-value"), `${from} to ${to} s after the start${of}`);
  }

  // The share of each bucket in a bin, or in all of them.
  #shares(/** @type {number | null} */ bin) {
    const seconds = this.#stack.map(({ bucket }) => {
      const values = this.#breakdown.seconds[bucket];
      return bin === null ? sum([...values]) : values[bin];
    });
    return this.#stack.map(({ bucket }, i) => {
      return { name: this.#titles.get(bucket), colour: areaColour(bucket), text: percent(seconds[i] / sum(seconds), 1) };
    });
  }
}
