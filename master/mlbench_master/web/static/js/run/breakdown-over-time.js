// The section "Time breakdown over time": all worker-seconds by bucket as stacked areas, with the
// attempts of the run, and below the axis what a restart discarded.

import { get } from "../api.js";
import { showKey } from "../bars.js";
import { byId, setNotice, setText } from "../dom.js";
import { duration, number, percent, plural } from "../format.js";
import { sum } from "../series.js";
import * as theme from "../theme.js";
import { colourOfBucket } from "./goodput.js";
import { FONT, TimePlot } from "./time-plot.js";

/**
 * @import { Run, Schemas } from "../records.js"
 * @import { Axis } from "./curves.js"
 * @import { Surface } from "./time-plot.js"
 *
 * @typedef {Schemas["Breakdown"]} Breakdown
 */

const BINS = 240;
const [HEIGHT_PX, TITLE_PX, BRANCH_PX, HATCH_PX, ARROW_PX] = [190, 16, 14, 5, 4];
/** The bucket that is drawn below the axis: a discarded branch. */
const BELOW = "lost";

/** @returns {number[]} the edges of the bins in seconds since the start of the run. */
export function edgesOf(/** @type {Breakdown} */ { begin_seconds: begin, bin_seconds: length, seconds }) {
  const [first = []] = Object.values(seconds);
  return first.length ? Array.from({ length: first.length + 1 }, (_, i) => begin + i * length) : [];
}

/**
 * Stack the buckets: the discarded one from 0 downwards, all others from 0 upwards.
 * @param {Breakdown} breakdown
 * @param {string[]} order of the buckets, from the axis outwards
 * @returns {{ bucket: string, from: number[], to: number[] }[]} workers in each bin
 */
export function stackOf({ seconds, bin_seconds: length }, order) {
  let top = null;
  return order.filter((bucket) => bucket in seconds).map((bucket) => {
    const workers = seconds[bucket].map((value) => value / length);
    if (bucket === BELOW) return { bucket, from: workers.map(() => 0), to: workers.map((value) => -value) };
    const from = top ?? workers.map(() => 0);
    top = workers.map((value, i) => from[i] + value);
    return { bucket, from, to: top };
  });
}

/** The section "Time breakdown over time". */
export class BreakdownOverTime {
  /** @type {[string, [string, string]][]} */
  #buckets = JSON.parse(byId("goodput").dataset.buckets);
  /** @type {Breakdown | null} */
  #breakdown = null;
  #startedAt = NaN;
  /** @type {ReturnType<typeof stackOf>} */
  #stack = [];
  #edges = [];
  #places = [];
  #plot;

  constructor(/** @type {number} */ runId) {
    this.path = `/api/runs/${runId}/breakdown/`;
    this.#plot = new TimePlot(byId("over-time-map"), (surface) => this.#draw(surface), (place) => this.#tell(place));
    byId("over-time-whole").addEventListener("click", () => this.#plot.zoom(null));
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
    this.#startedAt = Date.parse(run.started_at);
    // Work is at the axis and overhead above it, so that work is a band without steps.
    const order = ["compute", "data", "contention", "communication", "waiting"];
    const names = this.#buckets.map(([bucket]) => bucket);
    this.#stack = stackOf(breakdown, [...order, ...names.filter((name) => !order.includes(name))]);
    this.#places = this.#placesOf(axis, this.#edges);
    const finite = this.#places.filter(Number.isFinite);
    const label = `Time breakdown of ${plural(run.num_workers, "worker")} over time`;
    const shares = this.#shares(null).map(({ name, text }) => `${name} ${text}`);
    this.#plot.canvas.setAttribute("aria-label", [label, ...shares].join(", "));
    const discarded = breakdown.discarded.length;
    const below = discarded ? ` Below the axis: ${discarded === 1 ? "a discarded branch" : `${discarded} discarded branches`}, with the way back to the checkpoint.` : "";
    setText(byId("over-time-caption"), `Workers by what they did, in bins of ${duration(breakdown.bin_seconds)}; totals are recorded about once a second.${below}`);
    this.#plot.show(axis, [finite[0], finite.at(-1)], HEIGHT_PX);
  }

  #placesOf(/** @type {Axis} */ axis, /** @type {readonly number[]} */ seconds) {
    return axis.place(seconds.map((second) => this.#startedAt + second * 1000));
  }

  #draw(/** @type {Surface} */ { ctx, x, left, right, height }) {
    byId("over-time-whole").hidden = !this.#plot.isZoomed;
    const { attempts, discarded } = this.#breakdown;
    const most = Math.max(...this.#stack.flatMap(({ to }) => to));
    const least = Math.min(0, ...this.#stack.flatMap(({ to }) => to));
    const bottom = height - (discarded.length ? BRANCH_PX : 0);
    const y = (workers) => TITLE_PX + ((most - workers) / (most - least)) * (bottom - TITLE_PX);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, 0, right - left, height);
    ctx.clip();
    const across = this.#places.map((place) => Math.round(x(place)));
    for (const { bucket, from, to } of this.#stack) {
      ctx.fillStyle = fillOf(ctx, bucket);
      to.forEach((end, i) => {
        const width = across[i + 1] - across[i];
        if (width > 0 && end !== from[i]) ctx.fillRect(across[i], y(Math.max(end, from[i])), width, Math.abs(y(end) - y(from[i])));
      });
    }
    this.#drawAttempts(ctx, this.#placesOf(this.#plot.axis, attempts).map(x), bottom);
    this.#drawBranches(ctx, discarded.map((branch) => this.#placesOf(this.#plot.axis, [branch.begin_seconds, branch.end_seconds]).map(x)), y, bottom);
    ctx.restore();
    ctx.fillStyle = theme.colour("--soft");
    ctx.font = FONT;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const workers of [most, 0]) ctx.fillText(number(Math.round(workers)), left - 6, y(workers));
    if (least < 0) ctx.fillText("lost", left - 6, Math.min(y(least), y(0) + TITLE_PX));
    ctx.fillRect(left, Math.round(y(0)), right - left, 1);
  }

  #drawAttempts(ctx, /** @type {number[]} */ begins, bottom) {
    ctx.font = FONT;
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    ctx.strokeStyle = ctx.fillStyle = theme.colour("--soft");
    if (begins.length < 2) return;
    let free = -Infinity;
    begins.forEach((begin, i) => {
      const label = `attempt ${i + 1}`;
      if (begin >= free) {
        ctx.fillText(label, begin + 4, 2);
        free = begin + 4 + ctx.measureText(label).width + 4;
      }
      strokeLine(ctx, [[begin, 0], [begin, bottom]], [2, 3]);
    });
  }

  // The way from the restart back to the checkpoint that it resumed from.
  #drawBranches(ctx, /** @type {number[][]} */ branches, y, bottom) {
    ctx.strokeStyle = ctx.fillStyle = theme.colour("--bad");
    for (const [checkpoint, resumed] of branches) {
      const depth = bottom + BRANCH_PX / 2;
      strokeLine(ctx, [[resumed, y(0)], [resumed, depth], [checkpoint, depth], [checkpoint, y(0)]], []);
      ctx.beginPath();
      ctx.moveTo(checkpoint, y(0));
      ctx.lineTo(checkpoint - ARROW_PX, y(0) + 2 * ARROW_PX);
      ctx.lineTo(checkpoint + ARROW_PX, y(0) + 2 * ARROW_PX);
      ctx.fill();
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
    const whole = sum(seconds);
    const titles = new Map(this.#buckets.map(([bucket, [title]]) => [bucket, title]));
    return this.#stack.map(({ bucket }, i) => ({
      name: titles.get(bucket),
      colour: colourOfBucket(bucket),
      text: percent(seconds[i] / whole, 1),
    }));
  }
}

function strokeLine(ctx, /** @type {number[][]} */ points, /** @type {number[]} */ dash) {
  ctx.setLineDash(dash);
  ctx.beginPath();
  points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.stroke();
  ctx.setLineDash([]);
}

// Discarded and unknown time is hatched.
function fillOf(ctx, /** @type {string} */ bucket) {
  const colour = theme.colour(colourOfBucket(bucket) ?? "--edge");
  if (bucket !== BELOW && bucket !== "unknown") return colour;
  const tile = new OffscreenCanvas(HATCH_PX, HATCH_PX);
  const brush = tile.getContext("2d");
  brush.strokeStyle = colour;
  brush.lineWidth = 1.6;
  for (const shift of [-HATCH_PX, 0, HATCH_PX]) strokeLine(brush, [[shift, HATCH_PX], [shift + HATCH_PX, 0]], []);
  return ctx.createPattern(tile, "repeat");
}
