// The section "Steps": what each rank did over time. A lane for each rank shows its work, straggler
// wait and communication; many ranks are a heat map of step times; zoomed in, each step is a bar.

import { get } from "../api.js";
import { showKey } from "../bars.js";
import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import { count, duration, number, percent, plural } from "../format.js";
import { EMPTY, byMetric, counterAt } from "../series.js";
import * as theme from "../theme.js";
import { figure, fillTable } from "../ui.js";
import { onZoom } from "../zoom.js";
import { SeriesStore } from "./series-store.js";
import { OF_STEPS, TOTALS, lanesOf, levelOf, levelsOf, scaleOf, singleSteps, stepTimes, summariesOf } from "./step-lanes.js";
import { FONT, TimePlot } from "./time-plot.js";

/**
 * @import { Run } from "../records.js"
 * @import { ByMetric } from "../series.js"
 * @import { Axis } from "./curves.js"
 * @import { Lanes, Step } from "./step-lanes.js"
 * @import { Surface } from "./time-plot.js"
 */

// Of all ranks and metrics together.
const POINTS_OF_ALL = 36_000;
const [MIN_COLUMNS, MAX_COLUMNS] = [12, 500];
// More ranks are a heat map.
const MAX_LANES = 40;
const [LANE_PX, GAP_PX, MAX_HEIGHT_PX, LABEL_PX] = [10, 4, 480, 13];
// Of few ranks, lanes are higher, so that shares can be read.
const [FEW_RANKS, HIGH_LANE_PX] = [8, 18];
// Of more steps, single ones are not drawn.
const [MAX_SINGLE, TWENTY] = [60, 20];
// Of a zoom, totals from before and after it are needed as well.
const MARGIN_MS = 2500;
const SETTLE_MS = 150;
const KNOT_PX = 2.5;
const PARTS = [
  { name: "Work", colour: "--phase-compute" },
  { name: "Straggler wait", colour: "--bucket-waiting" },
  { name: "Communication", colour: "--phase-communication" },
];

/** The section "Steps". */
export class Steps {
  #recorded;
  #plot;
  #figure = byId("steps-figure");
  /** @type {Axis | null} */
  #axis = null;
  /** @type {{ from: number, to: number, series: ByMetric } | null} what was zoomed to, in detail */
  #detail = null;
  /** @type {Lanes} */
  #overview = { ranks: [], edges: [], bin: 0, steps: [], work: [], waiting: [], exchange: [] };
  #lanes = this.#overview;
  /** @type {Step[][]} */
  #single = [];
  /** @type {number[][]} */
  #times = [];
  #places = [];
  /** @type {number | null} */
  #straggler = null;
  #row = 0;
  #timer = 0;
  #isOver = false;

  constructor(/** @type {number} */ runId) {
    this.path = `/api/metrics/${runId}/`;
    this.#recorded = new SeriesStore(runId, MAX_COLUMNS);
    const canvas = byId("steps-map");
    this.#plot = new TimePlot(canvas, (surface) => this.#draw(surface), (place, y) => this.#tell(place, y), (down) => {
      this.#row = Math.max(0, Math.min(this.#lanes.ranks.length - 1, this.#row + down));
      this.#plot.redraw();
    });
    this.#figure.addEventListener("change", () => this.#show());
    byId("steps-whole").addEventListener("click", () => this.#plot.zoom(null));
    byId("steps-twenty").addEventListener("click", () => this.#zoomToSteps());
    onZoom(() => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#loadDetail().catch(() => {}), SETTLE_MS);
    });
  }

  /** Mark the rank that held up the others. */
  setStraggler(/** @type {number | null} */ rank) {
    if (rank === this.#straggler) return;
    this.#straggler = rank;
    this.#plot.redraw();
  }

  /** Fetch the totals of the ranks, and draw what they did. */
  async refresh(/** @type {Run} */ run, /** @type {boolean} */ isReload, /** @type {Axis} */ axis) {
    const points = Math.floor(POINTS_OF_ALL / TOTALS.length / run.world_size);
    this.#recorded.points = Math.max(MIN_COLUMNS, Math.min(MAX_COLUMNS, points));
    await this.#recorded.refresh(TOTALS, isReload);
    this.#axis = axis;
    this.#isOver = run.finished_at !== null;
    this.#overview = lanesOf(this.#recorded.series, this.#recorded.points);
    this.#show();
    await this.#loadDetail();
  }

  // Zooming refines: the same number of points covers less time.
  async #loadDetail() {
    const { edges } = this.#overview;
    if (!this.#plot.isZoomed || !edges.length) {
      this.#detail = null;
      return this.#show();
    }
    const [from, to] = this.#plot.window.map((place) => this.#timeAt(place));
    if (!(from < to)) return;
    const answer = await get(this.path, {
      metric_type: "run", metric_filter: [...TOTALS, OF_STEPS], added: false, lineage: "final",
      summarize: this.#recorded.points,
      since: new Date(from - MARGIN_MS).toISOString(), until: new Date(to + MARGIN_MS).toISOString(),
    });
    this.#detail = { from, to, series: byMetric(answer) };
    this.#show();
  }

  #show() {
    const overview = this.#overview;
    const isZoomed = this.#plot.isZoomed && this.#detail;
    const zoomed = isZoomed && lanesOf(this.#detail.series, this.#recorded.points, [this.#detail.from - MARGIN_MS, this.#detail.to + MARGIN_MS]);
    this.#lanes = zoomed && zoomed.edges.length ? zoomed : overview;
    const { ranks, edges } = this.#lanes;
    byId("steps-shown").hidden = !edges.length;
    byId("steps-twenty").hidden = !edges.length;
    setNotice(byId("no-steps"), edges.length ? "" : this.#isOver ? "This run recorded too few steps." : "No steps so far.");
    if (!edges.length) return;
    this.#single = isZoomed ? this.#singleSteps(ranks) : [];
    const isHeat = this.#isHeat;
    byId("steps-figure-choice").hidden = !isHeat;
    this.#times = stepTimes(this.#lanes, this.#figure.value === "whole");
    this.#places = this.#axis.place(edges);
    this.#describe();
    const lane = ranks.length > FEW_RANKS ? LANE_PX : HIGH_LANE_PX;
    const height = Math.min(MAX_HEIGHT_PX, (lane + GAP_PX) * ranks.length);
    const places = this.#axis.place(overview.edges).filter(Number.isFinite);
    this.#plot.show(this.#axis, [places[0], places.at(-1)], height);
  }

  get #isHeat() {
    return this.#lanes.ranks.length > MAX_LANES && !this.#single.length;
  }

  // The single steps within the zoom, unless these are too many or were not recorded.
  #singleSteps(ranks) {
    const { from, to, series } = this.#detail;
    const [steps] = [...(series.get("step") ?? new Map()).values()];
    const [first, last] = counterAt(steps ?? EMPTY, [from, to]);
    if (!(last - (first || 0) <= MAX_SINGLE)) return [];
    const lanes = singleSteps(series, ranks).map((lane) => lane.filter(({ begin, end }) => end > from && begin < to));
    return lanes.some((lane) => lane.length) ? lanes : [];
  }

  #describe() {
    const { ranks, bin } = this.#lanes;
    const summaries = summariesOf(this.#lanes, this.#times).filter((summary) => summary.bin >= 0);
    const slowest = summaries.reduce((most, summary) => (summary.longest > (most?.longest ?? 0) ? summary : most), null);
    const what = this.#isHeat ? this.#figure.selectedOptions[0].text : "Steps";
    const longest = slowest ? `; longest ${duration(slowest.longest)}, rank ${slowest.rank}, ${this.#when(slowest.bin)}` : "";
    this.#plot.canvas.setAttribute("aria-label", `${what} of ${plural(ranks.length, "rank")} over time${longest}`);
    setText(byId("steps-caption"), this.#caption(bin));
    const [kind, hint] = this.#figure.value === "whole" ? ["step", "Step time"] : ["work", "Step time, excluding communication"];
    /** @type {import("../ui.js").Column<typeof summaries[number]>[]} */
    const columns = [
      { title: "Rank", isHead: true, text: ({ rank }) => String(rank) },
      figure(`Median ${kind}`, ({ median }) => duration(median), hint),
      figure(`Longest ${kind}`, ({ longest: most }) => duration(most), hint),
      { title: "When", text: (summary) => this.#when(summary.bin) },
      figure("Straggler wait", ({ waiting }) => percent(waiting, 1)),
    ];
    fillTable(byId("steps-table"), columns, summaries, ({ rank }) => rank);
    if (this.#isHeat) this.#showScale();
    else showKey(byId("steps-key"), PARTS);
  }

  #caption(bin) {
    const steps = this.#single.flat();
    if (steps.length) {
      const numbers = steps.map((step) => step.number);
      const means = steps.filter((step) => step.isMean).length;
      const how = !means ? "recorded for each step" : means < steps.length ? "recorded for some steps, else a mean over about a second" : "a mean over about a second";
      return `Steps ${count(Math.min(...numbers))} to ${count(Math.max(...numbers))}: a bar is one step, a thread joins the ranks where it ended, a dot marks the rank that came last. Communication is ${how}, and drawn at the end of its step.`;
    }
    const each = this.#isHeat
      ? `Each row is a rank, each cell the mean of its steps in ${duration(bin)}.`
      : `Each lane is a rank, each column ${duration(bin)}: the colours fill the share of that time spent in each activity.`;
    return `${each} Ranks record totals about once a second; zoom in for single steps.`;
  }

  /** @returns {string[]} the colours of the levels, as the legend has them */
  #showScale() {
    const key = byId("steps-key");
    const levels = levelsOf(scaleOf(this.#times));
    reconcile(key, levels, ({ level }) => `level ${level}`, ({ level }) => h("li", { "data-heat": level }), (item, { end, level }) =>
      setText(item, `${duration(end)}${level === levels.length - 1 ? " or more" : ""}`),
    );
    return [...key.children].map((item) => getComputedStyle(item).getPropertyValue("--heat"));
  }

  #draw(/** @type {Surface} */ surface) {
    const { ctx, left, right, height } = surface;
    const { ranks } = this.#lanes;
    byId("steps-whole").hidden = !this.#plot.isZoomed;
    if (!ranks.length) return;
    const lane = height / ranks.length;
    const tops = [...ranks, 0].map((_, row) => (lane < LANE_PX ? Math.round(row * lane) : row * lane));
    const thick = (row) => Math.max(1, tops[row + 1] - tops[row] - (lane > LANE_PX ? GAP_PX : 0));
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, 0, right - left, height);
    ctx.clip();
    if (this.#single.length) this.#drawSingle(surface, tops, thick);
    else if (this.#isHeat) this.#drawHeat(surface, tops, thick);
    else this.#drawLanes(surface, tops, thick);
    ctx.restore();
    this.#drawLabels(surface, tops);
  }

  #drawLanes(/** @type {Surface} */ { ctx, x }, tops, thick) {
    const { work, waiting, exchange, edges } = this.#lanes;
    const colours = PARTS.map(({ colour }) => theme.colour(colour));
    const across = this.#places.map((place) => Math.round(x(place)));
    work.forEach((row, i) => row.forEach((seconds, bin) => {
      const width = across[bin + 1] - across[bin];
      const length = (edges[bin + 1] - edges[bin]) / 1000;
      let bottom = tops[i] + thick(i);
      [seconds, waiting[i][bin], exchange[i][bin] - waiting[i][bin]].forEach((part, at) => {
        const high = (part / length) * thick(i);
        ctx.fillStyle = colours[at];
        if (width > 0 && high > 0) ctx.fillRect(across[bin], bottom - high, width, high);
        bottom -= high;
      });
    }));
  }

  #drawHeat(/** @type {Surface} */ { ctx, x }, tops, thick) {
    const scale = scaleOf(this.#times);
    const colours = this.#showScale();
    const across = this.#places.map((place) => Math.round(x(place)));
    this.#times.forEach((row, i) => row.forEach((value, bin) => {
      if (Number.isNaN(value) || !(across[bin + 1] > across[bin])) return;
      ctx.fillStyle = colours[levelOf(value, scale)];
      ctx.fillRect(across[bin], tops[i], across[bin + 1] - across[bin], thick(i));
    }));
  }

  #drawSingle(/** @type {Surface} */ { ctx, x }, tops, thick) {
    const colours = PARTS.map(({ colour }) => theme.colour(colour));
    const xOf = this.#xOf(x);
    /** @type {Map<number, { x: number, row: number, exchange: number, from: number }[]>} */
    const joins = new Map();
    const places = this.#single.map((lane) => [xOf(lane.map(({ begin }) => begin)), xOf(lane.map(({ end }) => end))]);
    this.#single.forEach((lane, row) => lane.forEach(({ number: step, begin, end, exchange, waiting }, i) => {
      const [from, to] = places[row].map((ends) => ends[i]);
      const scale = (to - from) / ((end - begin) / 1000);
      const [wait, talk] = [to - exchange * scale, to - (exchange - waiting) * scale].map((at) => Math.max(from, at));
      [[from, wait], [wait, talk], [talk, to]].forEach(([start, stop], part) => {
        ctx.fillStyle = colours[part];
        ctx.fillRect(start, tops[row], stop - start, thick(row));
      });
      if (!joins.has(step)) joins.set(step, []);
      joins.get(step).push({ x: to, row, exchange, from: wait });
    }));
    ctx.strokeStyle = ctx.fillStyle = theme.colour("--ink");
    ctx.lineWidth = 1;
    for (const join of joins.values()) {
      if (join.length < 2) continue;
      ctx.beginPath();
      join.forEach(({ x: at, row }, i) => {
        const [high, low] = [tops[row], tops[row] + thick(row)];
        if (i) ctx.lineTo(at, high);
        else ctx.moveTo(at, high);
        ctx.lineTo(at, low);
      });
      ctx.stroke();
      const last = join.reduce((least, end) => (end.exchange < least.exchange ? end : least));
      ctx.beginPath();
      ctx.arc(last.from, tops[last.row] + thick(last.row) / 2, KNOT_PX, 0, 2 * Math.PI);
      ctx.fill();
    }
  }

  // Where times are: between the edges of a fine grid, because an axis may be slow to ask.
  #xOf(x) {
    const { from, to } = this.#detail;
    const ends = [from - MARGIN_MS, from, to, to + MARGIN_MS];
    const grid = Array.from({ length: 101 }, (_, i) => from + ((to - from) * i) / 100);
    const times = [ends[0], ...grid, ends[3]];
    const pixels = this.#axis.place(times).map((place) => x(place));
    const line = { times, values: pixels, lows: pixels, highs: pixels };
    return (/** @type {number[]} */ moments) => counterAt(line, moments);
  }

  #drawLabels(/** @type {Surface} */ { ctx, left }, tops) {
    const { ranks } = this.#lanes;
    const lane = tops[1] - tops[0];
    const every = [1, 5, 10, 20, 50, 100, 200, 500].find((ranksApart) => ranksApart * (tops.at(-1) / ranks.length) >= LABEL_PX) ?? 1000;
    ctx.font = FONT;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    const straggler = ranks.indexOf(this.#straggler);
    const middle = (row) => tops[row] + (tops[row + 1] - tops[row] - (lane > LANE_PX ? GAP_PX : 0)) / 2;
    ranks.forEach((rank, row) => {
      const isNear = straggler >= 0 && row !== straggler && Math.abs(middle(row) - middle(straggler)) < LABEL_PX - 1;
      if ((rank % every && row !== straggler) || isNear) return;
      ctx.font = row === straggler ? `600 ${FONT}` : FONT;
      ctx.fillStyle = theme.colour(row === straggler ? "--bad" : "--soft");
      ctx.fillText(`rank ${rank}`, left - 6, Math.max(6, middle(row)));
    });
    if (straggler < 0) return;
    ctx.fillStyle = theme.colour("--bad");
    ctx.fillRect(left - 3, tops[straggler], 3, Math.max(2, tops[straggler + 1] - tops[straggler] - (lane > LANE_PX ? GAP_PX : 0)));
  }

  #tell(/** @type {number | null} */ place, /** @type {number | null} */ y) {
    const { ranks } = this.#lanes;
    if (!ranks.length) return;
    if (y !== null) this.#row = Math.max(0, Math.min(ranks.length - 1, Math.floor(y * ranks.length)));
    setText(byId("steps-value"), place === null ? "Point at a lane, or use the arrow keys. Drag to zoom." : this.#valueAt(place));
  }

  #valueAt(/** @type {number} */ place) {
    const row = Math.min(this.#row, this.#lanes.ranks.length - 1);
    const rank = `Rank ${this.#lanes.ranks[row]}`;
    const time = this.#timeAt(place);
    const step = this.#single[row]?.find(({ begin, end }) => begin <= time && time <= end);
    if (step) {
      const whole = (step.end - step.begin) / 1000;
      return `${rank}, step ${count(step.number)}: ${partsText(whole, whole - step.exchange, step.waiting, step.exchange - step.waiting)}`;
    }
    const bin = this.#places.findLastIndex((edge) => edge <= place);
    const { steps, work, waiting, exchange } = this.#lanes;
    const made = steps[row]?.[bin];
    if (this.#single.length || !(made > 0)) return `${rank}, ${this.#when(bin)}: no step`;
    if (this.#isHeat) return `${rank}, ${this.#when(bin)}: ${duration(this.#times[row][bin])} per step`;
    const parts = [work[row][bin] + exchange[row][bin], work[row][bin], waiting[row][bin], exchange[row][bin] - waiting[row][bin]];
    const [whole, own, wait, talk] = parts.map((part) => part / made);
    return `${rank}, ${this.#when(bin)}: ${partsText(whole, own, wait, talk)} per step`;
  }

  #when(/** @type {number} */ bin) {
    const [from, to] = this.#places.slice(bin, bin + 2).map((place) => number(place));
    return to === undefined ? this.#axis.title.toLowerCase() : `${this.#axis.title.toLowerCase()} ${from} to ${to}`;
  }

  // The time of a place: the axis only tells the reverse.
  #timeAt(/** @type {number} */ place) {
    const { edges } = this.#overview;
    const ends = [edges[0] - 60_000, ...edges, edges.at(-1) + 60_000];
    const places = this.#axis.place(ends);
    const known = ends.filter((_, i) => Number.isFinite(places[i]));
    const lows = places.filter(Number.isFinite);
    const at = Math.max(lows[0], Math.min(lows.at(-1), place));
    return counterAt({ times: lows, values: known, lows: known, highs: known }, [at])[0];
  }

  // Around the longest step.
  #zoomToSteps() {
    const series = this.#recorded.series.get("step");
    const steps = [...(series?.values() ?? [])].find(({ times }) => times.length > 1);
    if (!steps) return;
    const overview = this.#overview;
    const slowest = summariesOf(overview, stepTimes(overview, true)).reduce((most, summary) => (summary.longest > most.longest ? summary : most));
    const middle = (overview.edges[slowest.bin] + overview.edges[slowest.bin + 1]) / 2;
    const [at] = counterAt(steps, [middle]);
    const first = Math.max(steps.lows[0], Math.round(at) - TWENTY / 2);
    const ends = [first, first + TWENTY].map((step) => timeOfStep(steps, step));
    const places = this.#axis.place(ends);
    if (places[0] < places[1]) this.#plot.zoom([places[0], places[1]]);
  }
}

// When a total reached a value.
function timeOfStep(/** @type {import("../series.js").Series} */ { times, lows }, /** @type {number} */ value) {
  const after = lows.findIndex((low) => low >= value);
  if (after <= 0) return after ? times.at(-1) : times[0];
  const share = (value - lows[after - 1]) / (lows[after] - lows[after - 1]);
  return times[after - 1] + share * (times[after] - times[after - 1]);
}

function partsText(whole, work, waiting, exchange) {
  return `${duration(whole)}, of which work ${duration(Math.max(0, work))}, straggler wait ${duration(waiting)}, communication ${duration(exchange)}`;
}
