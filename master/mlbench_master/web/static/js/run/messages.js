// The messages of the communication benchmark: bus bandwidth over message size, and a table.

import { Chart } from "../chart.js";
import { byId, setNotice, setOptions } from "../dom.js";
import { NONE, count, number } from "../format.js";
import { EMPTY, SeriesStore, sum } from "../series.js";
import { figure, fillTable } from "../ui.js";

/**
 * @import { ByMetric } from "../series.js"
 * @import { Column } from "../table.js"
 *
 * The measured messages of a collective operation, smallest first, and when it began.
 * @typedef {{ bytes: number, seconds: number, algorithm: number, bus: number, wrong?: number }} Message
 * @typedef {{ name: string, operation: string, dtype: string, messages: Message[], began: number }} Operation
 */

const BYTES = "message_bytes";
const FIGURES = {
  seconds: "seconds",
  algorithm_bandwidth_bytes_per_second: "algorithm",
  bus_bandwidth_bytes_per_second: "bus",
  wrong_values: "wrong",
};
// Such as all_reduce_float32_seconds.
const METRIC = new RegExp(`^(.+)_([^_]+)_(${Object.keys(FIGURES).join("|")})$`);
const GIGA = 1e9;
const POINTS = 1000;
const BUS_HINT = "Bus bandwidth: comparable with the bandwidth of the hardware, for any number of ranks";
const VALUE_BYTES = /(\d+)$/; // of a type such as float32 or bfloat16

/** @returns {Operation[]} the measured operations, in the order of the benchmark. */
export function operationsOf(/** @type {ByMetric} */ series) {
  const only = (/** @type {string} */ metric) => [...(series.get(metric)?.values() ?? [EMPTY])][0];
  const sizes = only(BYTES);
  const bytesAt = new Map(sizes.times.map((time, i) => /** @type {const} */ ([time, sizes.values[i]])));
  const operations = new Map();
  for (const metric of series.keys()) {
    const [, operation, dtype, figure] = METRIC.exec(metric) ?? [];
    if (!figure) continue;
    const name = `${operation} ${dtype}`;
    if (!operations.has(name)) operations.set(name, { name, operation, dtype, at: new Map() });
    const { at } = operations.get(name);
    const { times, values } = only(metric);
    times.forEach((time, i) => at.set(time, { ...at.get(time), bytes: bytesAt.get(time), [FIGURES[figure]]: values[i] }));
  }
  const measured = [...operations.values()].map(({ at, ...operation }) => {
    const messages = [...at.values()].filter(({ bytes, bus }) => bytes && bus).sort((a, b) => a.bytes - b.bytes);
    return { ...operation, messages, began: Math.min(...at.keys()) };
  });
  // Other series, such as those of phases, have similar names.
  return measured.filter(({ messages }) => messages.length).sort((a, b) => a.began - b.began);
}

/** @returns {string[][]} name, value and hint of each figure: the peaks of the operations, and wrong values. */
export function peaksOf(/** @type {Operation[]} */ operations) {
  const peaks = operations.map(({ operation, dtype, messages }) => {
    const peak = messages.reduce((best, message) => (message.bus > best.bus ? message : best));
    const title = operation[0].toUpperCase() + operation.slice(1).replaceAll("_", "-");
    return [`${title}, peak`, `${number(peak.bus / GIGA, 3)} GB/s`, `Bus bandwidth of ${count(peak.bytes)} B, ${dtype}`];
  });
  const checked = operations.flatMap(({ messages }) => messages.map(({ wrong }) => wrong)).filter(Number.isFinite);
  return [...peaks, ["Wrong values", checked.length ? count(sum(checked)) : NONE, "Values that differ from the expected ones"]];
}

/** @type {(operation: Operation) => Column<Message>[]} */
const columnsOf = ({ operation, dtype }) => [
  figure("Size (B)", ({ bytes }) => String(bytes)),
  figure("Count (elements)", ({ bytes }) => String(Math.round((8 * bytes) / Number(VALUE_BYTES.exec(dtype)?.[1] ?? 8)))),
  { title: "Type", text: () => dtype },
  { title: "Redop", text: () => (/reduce/.test(operation) ? "sum" : "none") },
  figure("Root", () => (operation === "broadcast" ? "0" : "-1")),
  figure("Time (us)", ({ seconds }) => (seconds * 1e6).toFixed(1), "Mean time of one operation"),
  figure("Algbw (GB/s)", ({ algorithm }) => (algorithm / GIGA).toFixed(3), "Algorithm bandwidth: message size divided by time"),
  figure("Busbw (GB/s)", ({ bus }) => (bus / GIGA).toFixed(3), BUS_HINT),
  figure("#wrong", ({ wrong }) => (wrong == null ? "N/A" : String(wrong)), "Number of wrong values"),
];

/** The sections "Bus bandwidth" and "Messages", which a run of the communication benchmark has. */
export class Messages {
  #select = byId("messages-operation");
  /** @type {Operation[]} */
  operations = [];

  constructor(/** @type {number} */ runId) {
    this.recorded = new SeriesStore(runId, POINTS);
    this.chart = new Chart(byId("bandwidth-chart"), "Bus bandwidth by message size");
    this.#select.addEventListener("change", () => this.#fill());
    byId("bandwidth").hidden = false;
    byId("training").hidden = true;
  }

  /** Fetch the figures of all messages, among the metrics that the run recorded, and draw them. */
  async refresh(/** @type {string[]} */ metrics, /** @type {boolean} */ isReload) {
    const filters = metrics.filter((metric) => METRIC.test(metric));
    if (filters.length) await this.recorded.refresh([BYTES, ...filters], isReload);
    this.operations = operationsOf(this.recorded.series);
    setNotice(byId("no-messages"), this.operations.length ? "" : "No messages measured yet.");
    byId("bandwidth-chart").hidden = !this.operations.length;
    if (!this.operations.length) return;
    setOptions(this.#select, this.operations.map(({ name }) => name));
    this.#fill();
    const lines = this.operations.map(({ name, messages }) => {
      return { name, x: messages.map(({ bytes }) => bytes), y: messages.map(({ bus }) => bus / GIGA), points: true };
    });
    this.chart.draw(lines, { x: "Message size (bytes)", y: "Bus bandwidth (GB/s)", xType: "log", yType: "log" });
  }

  #fill() {
    const operation = this.operations.find(({ name }) => name === this.#select.value);
    fillTable(byId("messages"), columnsOf(operation), operation.messages, ({ bytes }) => `${operation.name} ${bytes}`);
  }
}
