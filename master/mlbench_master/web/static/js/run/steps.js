// The section "Steps": what each rank did over time. A lane for each rank shows its work, straggler
// wait and communication; many ranks are a heat map of step times; zoomed in, each step is a bar.

import { get } from "../api.js";
import { showKey } from "../bars.js";
import { Chart } from "../chart.js";
import { byId, setNotice, setText } from "../dom.js";
import { count, duration, number, percent, plural } from "../format.js";
import { onZoom, zoomTo } from "../look.js";
import { FONT, fillDot, strokeLine } from "../plot.js";
import { EMPTY, SeriesStore, byMetric, counterAt } from "../series.js";
import * as theme from "../theme.js";
import { figure, fillTable } from "../ui.js";
import { OF_STEPS, TOTALS, lanesOf, levelOf, levelsOf, singleSteps, summariesOf } from "./step-lanes.js";

/**
 * @import { Surface } from "../plot.js"
 * @import { ByMetric } from "../series.js"
 * @import { Axis } from "./curves.js"
 * @import { Step } from "./step-lanes.js"
 * @typedef {{ top: number, thick: number }} Row in pixels
 */

// Maximum number of points of all ranks and metrics together.
const POINTS_OF_ALL = 36_000;
const [MIN_COLUMNS, MAX_COLUMNS] = [12, 500];
// More ranks are a heat map.
const MAX_LANES = 40;
const [LANE_PX, GAP_PX, MAX_HEIGHT_PX, AXIS_PX, LABEL_PX] = [10, 4, 480, 48, 13];
// With few ranks, lanes are higher, so that shares are readable.
const [FEW_RANKS, HIGH_LANE_PX] = [8, 18];
// With more steps than this, single steps are not drawn.
const [MAX_SINGLE, TWENTY] = [60, 20];
// A zoom also needs totals from before and after it.
const MARGIN_MS = 2500;
const SETTLE_MS = 150;
const PARTS = [
  { name: "Work", colour: "--phase-compute" },
  { name: "Straggler wait", colour: "--bucket-waiting" },
  { name: "Communication", colour: "--phase-communication" },
];

/** The section "Steps". */
export class Steps {
  #chart = new Chart(byId("steps-map"), "Steps", { hasLegend: false, hasFiles: false });
  #recorded;
  /** @type {{ run: Run, axis: Axis, extent?: [number, number] } | null} the run, and the axis of its curves with its ends */
  #shown = null;
  /** @type {{ from: number, to: number, series: ByMetric } | null} what was zoomed to, in detail */
  #detail = null;
  #overview = lanesOf(new Map(), 0);
  #lanes = this.#overview;
  #levels = [];
  /** Where the edges of the lanes' bins are on the axis. */
  #places = [];
  /** @type {(Step & { from: number, to: number })[][]} */
  #single = [];
  /** @type {number | null} */
  #straggler = null;
  #row = 0;
  #timer = 0;

  constructor(/** @type {number} */ runId) {
    this.path = `/api/metrics/${runId}/`;
    this.#recorded = new SeriesStore(runId, MAX_COLUMNS);
    /** @type {number | null} */
    let at = null;
    this.#chart.place.setAttribute("aria-describedby", "steps-value");
    this.#chart.place.addEventListener("keydown", (event) => {
      const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (down) event.preventDefault();
      if (down) this.#tell(at, this.#row + down);
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

  /** Fetch the totals of the ranks, and draw their activity. */
  async refresh(/** @type {Run} */ run, /** @type {boolean} */ isReload, /** @type {Axis} */ axis, /** @type {[number, number] | undefined} */ extent) {
    const points = Math.floor(POINTS_OF_ALL / TOTALS.length / run.world_size);
    this.#recorded.points = Math.max(MIN_COLUMNS, Math.min(MAX_COLUMNS, points));
    await this.#recorded.refresh(TOTALS, isReload);
    this.#shown = { run, axis, extent };
    this.#overview = lanesOf(this.#recorded.series, this.#recorded.points);
    this.#show();
    await this.#loadDetail();
  }

  // Zooming refines: the same number of points covers less time.
  async #loadDetail() {
    this.#detail = this.#chart.isZoomed && this.#overview.edges.length ? await this.#fetch(this.#chart.range) : null;
    if (this.#shown) this.#show();
  }

  async #fetch(/** @type {[number, number]} */ range) {
    // The axis only tells the place of a time, not the reverse.
    const { edges } = this.#overview;
    const places = this.#shown.axis.place(edges);
    const first = places.findIndex(Number.isFinite);
    const clock = { times: places.slice(first), lows: edges.slice(first) };
    const [from, to] = counterAt(clock, range.map((place) => Math.max(place, places[first])));
    const answer = await get(this.path, {
      metric_type: "run", metric_filter: [...TOTALS, OF_STEPS], added: false, lineage: "final",
      summarize: this.#recorded.points,
      since: new Date(from - MARGIN_MS).toISOString(), until: new Date(to + MARGIN_MS).toISOString(),
    });
    return { from, to, series: byMetric(answer) };
  }

  #show() {
    const { run, axis, extent } = this.#shown;
    const detail = this.#chart.isZoomed ? this.#detail : null;
    const zoomed = detail && lanesOf(detail.series, this.#recorded.points, [detail.from - MARGIN_MS, detail.to + MARGIN_MS]);
    this.#lanes = zoomed?.edges.length ? zoomed : this.#overview;
    const { ranks, edges, times } = this.#lanes;
    byId("steps-shown").hidden = byId("steps-twenty").hidden = !edges.length;
    setNotice(byId("no-steps"), edges.length ? "" : run.finished_at ? "This run recorded too few steps." : "No steps so far.");
    if (!edges.length) return;
    this.#single = detail ? this.#singleSteps(detail) : [];
    this.#places = axis.place(edges);
    this.#levels = levelsOf(times);
    const toEntry = (start, level) => ({
      name: duration(start) + (level === this.#levels.length - 1 ? " or more" : ""),
      colour: `--heat-${level}`,
    });
    showKey(byId("steps-key"), this.#isHeat ? this.#levels.map(toEntry) : PARTS);
    setText(byId("steps-caption"), this.#caption());
    const lane = ranks.length > FEW_RANKS ? LANE_PX : HIGH_LANE_PX;
    this.#chart.place.style.height = `${Math.min(MAX_HEIGHT_PX, (lane + GAP_PX) * ranks.length) + AXIS_PX}px`;
    const places = axis.place(this.#overview.edges).filter(Number.isFinite);
    this.#chart.draw([], {
      x: axis.title,
      shared: axis.shared,
      stacked: "last",
      extent: extent ?? [places[0], places.at(-1)],
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
    if (!(last - (first || 0) <= MAX_SINGLE)) return [];
    const lanes = singleSteps(series, this.#lanes.ranks).map((lane) => {
      const inside = lane.filter(({ begin, end }) => end > from && begin < to);
      return inside.map((step) => {
        const [begin, end] = this.#shown.axis.place([step.begin, step.end]);
        return { ...step, from: begin, to: end };
      });
    });
    return lanes.flat().length ? lanes : [];
  }

  get #isHeat() {
    return this.#lanes.ranks.length > MAX_LANES && !this.#single.length;
  }

  /** @returns {string} the longest step in words */
  #showTable() {
    const summaries = summariesOf(this.#lanes);
    const hint = "Step time, excluding communication";
    /** @type {import("../table.js").Column<typeof summaries[number]>[]} */
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

  #caption() {
    const steps = this.#single.flat();
    if (steps.length) {
      const numbers = steps.map((step) => step.number);
      const means = steps.filter((step) => step.isMean).length;
      const some = means < steps.length ? "recorded for some steps, else " : "";
      const how = means ? `${some}a mean over about a second` : "recorded for each step";
      return `Steps ${count(Math.min(...numbers))} to ${count(Math.max(...numbers))}: a bar is one step, a thread joins the ranks where it ended, a dot marks the rank that came last. Communication is ${how}, and drawn at the end of its step.`;
    }
    const bin = duration(this.#lanes.bin);
    const each = this.#isHeat
      ? `Each row is a rank, each cell the mean of its steps in ${bin}.`
      : `Each lane is a rank, each column ${bin}: the colours fill the share of that time spent in each activity.`;
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
    const { work, waiting, exchange, times, bin: whole } = this.#lanes;
    const across = this.#places.map((place) => Math.round(x(place)));
    rows.forEach(({ top, thick }, i) => work[i].forEach((seconds, bin) => {
      const width = across[bin + 1] - across[bin];
      if (!(width > 0)) return;
      if (this.#isHeat) {
        ctx.fillStyle = theme.colour(`--heat-${levelOf(times[i][bin], this.#levels)}`);
        if (times[i][bin] > 0) ctx.fillRect(across[bin], top, width, thick);
        return;
      }
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
      fillDot(ctx, last.wait, last.row.top + last.row.thick / 2);
    }
  }

  #tell(/** @type {number | null} */ place, /** @type {number} */ row) {
    this.#row = Math.max(0, Math.min(this.#lanes.ranks.length - 1, row));
    const hint = "Point at a lane, or use the arrow keys. Drag to zoom.";
    setText(byId("steps-value"), place === null ? hint : this.#valueAt(place, this.#row));
  }

  #valueAt(/** @type {number} */ place, /** @type {number} */ row) {
    const { ranks, steps, work, waiting, exchange, times } = this.#lanes;
    const rank = `Rank ${ranks[row]}`;
    const step = this.#single[row]?.find(({ from, to }) => from <= place && place <= to);
    if (step) return `${rank}, step ${count(step.number)}: ${partsText((step.end - step.begin) / 1000, step.waiting, step.exchange)}`;
    const bin = this.#places.findLastIndex((edge) => edge <= place);
    const made = steps[row]?.[bin];
    const where = `${rank}, ${this.#when(bin)}`;
    if (this.#single.length || !(made > 0)) return `${where}: no step`;
    if (this.#isHeat) return `${where}: ${duration(times[row][bin])} per step`;
    const [own, wait, all] = [work, waiting, exchange].map((lanes) => lanes[row][bin] / made);
    return `${where}: ${partsText(own + all, wait, all)} per step`;
  }

  #when(/** @type {number} */ bin) {
    const [from, to] = this.#places.slice(bin, bin + 2).map((place) => number(place));
    return this.#shown.axis.title.toLowerCase() + (to === undefined ? "" : ` ${from} to ${to}`);
  }

  // Around the longest step.
  #zoomToSteps() {
    const { axis } = this.#shown;
    const { ranks, edges, steps } = this.#overview;
    const [slowest] = summariesOf(this.#overview).sort((a, b) => b.longest - a.longest);
    if (!slowest) return;
    const [from, to] = axis.place(edges.slice(slowest.bin, slowest.bin + 2));
    const half = ((to - from) * TWENTY) / steps[ranks.indexOf(slowest.rank)][slowest.bin] / 2;
    if (half > 0) zoomTo([(from + to) / 2 - half, (from + to) / 2 + half], axis.shared);
  }
}

function partsText(whole, waiting, exchange) {
  const [work, talk] = [Math.max(0, whole - exchange), exchange - waiting].map(duration);
  return `${duration(whole)}, of which work ${work}, straggler wait ${duration(waiting)}, communication ${talk}`;
}
