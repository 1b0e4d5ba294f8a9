// The section "Steps": what each rank did over time. A lane for each rank shows its work, straggler
// wait and communication; many ranks are a heat map of step times; zoomed in, each step is a bar.

import { get } from "../api.js";
import { showKey } from "../bars.js";
import { Chart } from "../chart.js";
import { byId, setNotice, setText } from "../dom.js";
import { count, duration, number, percent, plural } from "../format.js";
import { FONT, strokeLine } from "../plot.js";
import { EMPTY, byMetric, counterAt, inverse } from "../series.js";
import * as theme from "../theme.js";
import { figure, fillTable } from "../ui.js";
import { onZoom, zoomTo } from "../zoom.js";
import { SeriesStore } from "./series-store.js";
import { OF_STEPS, TOTALS, lanesOf, levelOf, levelsOf, singleSteps, stepTimes, summariesOf } from "./step-lanes.js";

/**
 * @import { Surface } from "../plot.js"
 * @import { Run } from "../records.js"
 * @import { ByMetric } from "../series.js"
 * @import { Axis } from "./curves.js"
 * @import { Step } from "./step-lanes.js"
 * @typedef {{ top: number, thick: number }} Row in pixels
 */

// Of all ranks and metrics together.
const POINTS_OF_ALL = 36_000;
const [MIN_COLUMNS, MAX_COLUMNS] = [12, 500];
// More ranks are a heat map.
const MAX_LANES = 40;
const [LANE_PX, GAP_PX, MAX_HEIGHT_PX, AXIS_PX, LABEL_PX] = [10, 4, 480, 48, 13];
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
  #chart = new Chart(byId("steps-map"), "Steps", { hasLegend: false, hasFiles: false });
  /** @type {Axis | null} */
  #axis = null;
  /** @type {[number, number] | undefined} the ends of the axis that the curves have */
  #extent;
  /** @type {{ from: number, to: number, series: ByMetric } | null} what was zoomed to, in detail */
  #detail = null;
  #overview = lanesOf(new Map(), 0);
  #lanes = this.#overview;
  /** Where the edges of the lanes' bins are on the axis. */
  #places = [];
  /** @type {(Step & { from: number, to: number })[][]} */
  #single = [];
  /** @type {number[][]} */
  #times = [];
  /** @type {number | null} */
  #straggler = null;
  #row = 0;
  #timer = 0;
  #isOver = false;

  constructor(/** @type {number} */ runId) {
    this.path = `/api/metrics/${runId}/`;
    this.#recorded = new SeriesStore(runId, MAX_COLUMNS);
    const { place } = this.#chart;
    /** @type {number | null} */
    let at = null;
    place.setAttribute("aria-describedby", "steps-value");
    place.addEventListener("keydown", (event) => {
      const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!down) return;
      event.preventDefault();
      this.#tell(at, this.#row + down);
    });
    this.#chart.onCursor = (cursor, above) => {
      at = cursor;
      this.#tell(at, above === null ? this.#row : Math.floor(above * this.#lanes.ranks.length));
    };
    byId("steps-twenty").addEventListener("click", () => this.#zoomToSteps());
    onZoom(() => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#loadDetail().catch(() => {}), SETTLE_MS);
    });
  }

  /** Mark the rank that held up the others. */
  setStraggler(/** @type {number | null} */ rank) {
    this.#straggler = rank;
    this.#chart.repaint();
  }

  /** Fetch the totals of the ranks, and draw what they did. */
  async refresh(/** @type {Run} */ run, /** @type {boolean} */ isReload, /** @type {Axis} */ axis, /** @type {[number, number] | undefined} */ extent) {
    const points = Math.floor(POINTS_OF_ALL / TOTALS.length / run.world_size);
    this.#recorded.points = Math.max(MIN_COLUMNS, Math.min(MAX_COLUMNS, points));
    await this.#recorded.refresh(TOTALS, isReload);
    this.#axis = axis;
    this.#extent = extent;
    this.#isOver = run.finished_at !== null;
    this.#overview = lanesOf(this.#recorded.series, this.#recorded.points);
    this.#show();
    await this.#loadDetail();
  }

  // Zooming refines: the same number of points covers less time.
  async #loadDetail() {
    let detail = null;
    if (this.#chart.isZoomed && this.#overview.edges.length) {
      const [from, to] = this.#chart.range.map((place) => this.#timeAt(place));
      const answer = await get(this.path, {
        metric_type: "run", metric_filter: [...TOTALS, OF_STEPS], added: false, lineage: "final",
        summarize: this.#recorded.points,
        since: new Date(from - MARGIN_MS).toISOString(), until: new Date(to + MARGIN_MS).toISOString(),
      });
      detail = { from, to, series: byMetric(answer) };
    }
    this.#detail = detail;
    this.#show();
  }

  #show() {
    const detail = this.#chart.isZoomed ? this.#detail : null;
    const zoomed = detail && lanesOf(detail.series, this.#recorded.points, [detail.from - MARGIN_MS, detail.to + MARGIN_MS]);
    this.#lanes = zoomed?.edges.length ? zoomed : this.#overview;
    const { ranks, edges, bin } = this.#lanes;
    byId("steps-shown").hidden = byId("steps-twenty").hidden = !edges.length;
    setNotice(byId("no-steps"), edges.length ? "" : this.#isOver ? "This run recorded too few steps." : "No steps so far.");
    if (!edges.length) return;
    this.#single = detail ? this.#singleSteps(detail) : [];
    this.#places = this.#axis.place(edges);
    this.#times = stepTimes(this.#lanes);
    const levels = levelsOf(this.#times);
    const toEntry = (start, level) => {
      const more = level === levels.length - 1 ? " or more" : "";
      return { name: duration(start) + more, colour: `--heat-${level}` };
    };
    showKey(byId("steps-key"), this.#isHeat ? levels.map(toEntry) : PARTS);
    setText(byId("steps-caption"), this.#caption(bin));
    const lane = ranks.length > FEW_RANKS ? LANE_PX : HIGH_LANE_PX;
    this.#chart.place.style.height = `${Math.min(MAX_HEIGHT_PX, (lane + GAP_PX) * ranks.length) + AXIS_PX}px`;
    const places = this.#axis.place(this.#overview.edges).filter(Number.isFinite);
    this.#chart.draw([], {
      x: this.#axis.title,
      shared: this.#axis.shared,
      stacked: "last",
      extent: this.#extent ?? [places[0], places.at(-1)],
      yRange: [0, 1],
      yTicks: [],
      label: this.#showTable(),
      paint: (surface) => this.#paint(surface),
    });
  }

  // The single steps within the zoom and their places, unless these are too many or were not recorded.
  #singleSteps({ from, to, series }) {
    const [steps = EMPTY] = series.get("step")?.values() ?? [];
    const [first, last] = counterAt(steps, [from, to]);
    const lanes = singleSteps(series, this.#lanes.ranks).map((lane) => {
      const inside = lane.filter(({ begin, end }) => end > from && begin < to);
      const begins = this.#axis.place(inside.map(({ begin }) => begin));
      const ends = this.#axis.place(inside.map(({ end }) => end));
      return inside.map((step, i) => ({ ...step, from: begins[i], to: ends[i] }));
    });
    return last - (first || 0) <= MAX_SINGLE && lanes.flat().length ? lanes : [];
  }

  get #isHeat() {
    return this.#lanes.ranks.length > MAX_LANES && !this.#single.length;
  }

  /** @returns {string} the longest step in words */
  #showTable() {
    const summaries = summariesOf(this.#lanes, this.#times).filter((summary) => summary.bin >= 0);
    const hint = "Step time, excluding communication";
    /** @type {import("../ui.js").Column<typeof summaries[number]>[]} */
    const columns = [
      { title: "Rank", isHead: true, text: ({ rank }) => String(rank) },
      figure("Median work", ({ median }) => duration(median), hint),
      figure("Longest work", ({ longest }) => duration(longest), hint),
      { title: "When", text: (summary) => this.#when(summary.bin) },
      figure("Straggler wait", ({ waiting }) => percent(waiting, 1)),
    ];
    fillTable(byId("steps-table"), columns, summaries, ({ rank }) => rank);
    const [slowest] = summaries.toSorted((a, b) => b.longest - a.longest);
    const longest = slowest ? `; longest ${duration(slowest.longest)}, rank ${slowest.rank}, ${this.#when(slowest.bin)}` : "";
    return `${this.#isHeat ? hint : "Steps"} of ${plural(this.#lanes.ranks.length, "rank")} over time${longest}`;
  }

  #caption(bin) {
    const steps = this.#single.flat();
    if (steps.length) {
      const numbers = steps.map((step) => step.number);
      const means = steps.filter((step) => step.isMean).length;
      const some = means < steps.length ? "recorded for some steps, else " : "";
      const how = means ? `${some}a mean over about a second` : "recorded for each step";
      return `Steps ${count(Math.min(...numbers))} to ${count(Math.max(...numbers))}: a bar is one step, a thread joins the ranks where it ended, a dot marks the rank that came last. Communication is ${how}, and drawn at the end of its step.`;
    }
    const each = this.#isHeat
      ? `Each row is a rank, each cell the mean of its steps in ${duration(bin)}.`
      : `Each lane is a rank, each column ${duration(bin)}: the colours fill the share of that time spent in each activity.`;
    return `${each} Ranks record totals about once a second; zoom in for single steps.`;
  }

  #paint(/** @type {Surface} */ surface) {
    const { ctx, height, inside } = surface;
    const { ranks } = this.#lanes;
    const lane = height / ranks.length;
    const gap = lane > LANE_PX ? GAP_PX : 0;
    const rows = ranks.map((_, i) => {
      const top = Math.round(i * lane);
      return { top, thick: Math.max(1, Math.round((i + 1) * lane) - top - gap) };
    });
    inside(() => (this.#single.length ? this.#paintSingle(surface, rows) : this.#paintBins(surface, rows)));
    const every = [1, 5, 10, 20, 50, 100, 200, 500].find((ranksApart) => ranksApart * lane >= LABEL_PX) ?? 1000;
    const straggler = ranks.indexOf(this.#straggler);
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    rows.forEach(({ top, thick }, i) => {
      const isStraggler = i === straggler;
      const isNear = straggler >= 0 && Math.abs(i - straggler) * lane < LABEL_PX - 1;
      if (!isStraggler && (ranks[i] % every || isNear)) return;
      ctx.font = isStraggler ? `600 ${FONT}` : FONT;
      ctx.fillStyle = theme.colour(isStraggler ? "--bad" : "--soft");
      ctx.fillText(`rank ${ranks[i]}`, -6, Math.max(6, top + thick / 2));
      if (isStraggler) ctx.fillRect(-3, top, 3, Math.max(2, thick));
    });
  }

  #paintBins(/** @type {Surface} */ { ctx, x }, /** @type {Row[]} */ rows) {
    const { work, waiting, exchange, edges } = this.#lanes;
    const levels = levelsOf(this.#times);
    const across = this.#places.map((place) => Math.round(x(place)));
    rows.forEach(({ top, thick }, i) => work[i].forEach((seconds, bin) => {
      const width = across[bin + 1] - across[bin];
      if (!(width > 0)) return;
      const time = this.#times[i][bin];
      if (this.#isHeat) {
        ctx.fillStyle = theme.colour(`--heat-${levelOf(time, levels)}`);
        if (time > 0) ctx.fillRect(across[bin], top, width, thick);
        return;
      }
      const whole = (edges[bin + 1] - edges[bin]) / 1000;
      let bottom = top + thick;
      [seconds, waiting[i][bin], exchange[i][bin] - waiting[i][bin]].forEach((part, at) => {
        const high = (part / whole) * thick;
        ctx.fillStyle = theme.colour(PARTS[at].colour);
        ctx.fillRect(across[bin], bottom - high, width, high);
        bottom -= high;
      });
    }));
  }

  #paintSingle(/** @type {Surface} */ { ctx, x }, /** @type {Row[]} */ rows) {
    /** The ends of each step on its ranks. @type {Map<number, { at: number, row: Row, exchange: number, wait: number }[]>} */
    const joins = new Map();
    this.#single.forEach((lane, i) => lane.forEach(({ number: step, begin, end, exchange, waiting, ...places }) => {
      const [from, to] = [x(places.from), x(places.to)];
      const second = (to - from) / ((end - begin) / 1000);
      const [wait, talk] = [exchange, exchange - waiting].map((seconds) => Math.max(from, to - seconds * second));
      [[from, wait], [wait, talk], [talk, to]].forEach(([start, stop], part) => {
        ctx.fillStyle = theme.colour(PARTS[part].colour);
        ctx.fillRect(start, rows[i].top, stop - start, rows[i].thick);
      });
      joins.set(step, [...(joins.get(step) ?? []), { at: to, row: rows[i], exchange, wait }]);
    }));
    ctx.strokeStyle = ctx.fillStyle = theme.colour("--ink");
    for (const join of [...joins.values()].filter((ends) => ends.length > 1)) {
      strokeLine(ctx, join.flatMap(({ at, row }) => [[at, row.top], [at, row.top + row.thick]]));
      const last = join.reduce((least, end) => (end.exchange < least.exchange ? end : least));
      ctx.beginPath();
      ctx.arc(last.wait, last.row.top + last.row.thick / 2, KNOT_PX, 0, 2 * Math.PI);
      ctx.fill();
    }
  }

  #tell(/** @type {number | null} */ place, /** @type {number} */ row) {
    this.#row = Math.max(0, Math.min(this.#lanes.ranks.length - 1, row));
    setText(byId("steps-value"), place === null ? "Point at a lane, or use the arrow keys. Drag to zoom." : this.#valueAt(place));
  }

  #valueAt(/** @type {number} */ place) {
    const row = this.#row;
    const { ranks, steps, work, waiting, exchange } = this.#lanes;
    const rank = `Rank ${ranks[row]}`;
    const step = this.#single[row]?.find(({ from, to }) => from <= place && place <= to);
    if (step) return `${rank}, step ${count(step.number)}: ${partsText((step.end - step.begin) / 1000, step.waiting, step.exchange)}`;
    const bin = this.#places.findLastIndex((edge) => edge <= place);
    const made = steps[row]?.[bin];
    const where = `${rank}, ${this.#when(bin)}`;
    if (this.#single.length || !(made > 0)) return `${where}: no step`;
    if (this.#isHeat) return `${where}: ${duration(this.#times[row][bin])} per step`;
    const [own, wait, all] = [work, waiting, exchange].map((lanes) => lanes[row][bin] / made);
    return `${where}: ${partsText(own + all, wait, all)} per step`;
  }

  #when(/** @type {number} */ bin) {
    const [from, to] = this.#places.slice(bin, bin + 2).map((place) => number(place));
    return this.#axis.title.toLowerCase() + (to === undefined ? "" : ` ${from} to ${to}`);
  }

  // The time of a place: the axis only tells the reverse.
  #timeAt(/** @type {number} */ place) {
    const { edges } = this.#overview;
    const places = this.#axis.place(edges);
    const times = edges.filter((_, i) => Number.isFinite(places[i]));
    const lows = places.filter(Number.isFinite);
    return counterAt(inverse({ times, lows }), [Math.max(lows[0], place)])[0];
  }

  // Around the longest step.
  #zoomToSteps() {
    const steps = [...(this.#recorded.series.get("step")?.values() ?? [])].find(({ times }) => times.length > 1);
    if (!steps) return;
    const { edges } = this.#overview;
    const summaries = summariesOf(this.#overview, stepTimes(this.#overview)).filter(({ bin }) => bin >= 0);
    const [slowest] = summaries.sort((a, b) => b.longest - a.longest);
    const [at] = counterAt(steps, [(edges[slowest.bin] + edges[slowest.bin + 1]) / 2]);
    const first = Math.max(steps.lows[0], Math.round(at) - TWENTY / 2);
    const [from, to] = this.#axis.place(counterAt(inverse(steps), [first, first + TWENTY]));
    if (from < to) zoomTo([from, to], this.#axis.shared);
  }
}

function partsText(whole, waiting, exchange) {
  const [work, talk] = [Math.max(0, whole - exchange), exchange - waiting].map(duration);
  return `${duration(whole)}, of which work ${work}, straggler wait ${duration(waiting)}, communication ${talk}`;
}
