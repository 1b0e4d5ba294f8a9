// The same order as a line for a terminal: of `mlbench run`, and of curl. Pure.

import { quote } from "./shell.js";

/** An order as `order.js` makes it. @typedef {Record<string, any>} Order */

/** @returns {string} what to type to order the same. */
export function toCommandLine(/** @type {Order} */ order) {
  const words = ["mlbench", "run"];
  const option = (name, value) => {
    if (value != null) words.push(name, quote(typeof value === "number" ? decimal(value) : value));
  };
  if (order.benchmark) words.push(quote(order.benchmark));
  option("--name", order.name);
  option("--workers", order.num_workers);
  option("--cpus", order.num_cpus);
  option("--bandwidth", order.max_bandwidth);
  for (const [key, value] of Object.entries(order.args ?? {})) option("--set", `${key}=${value}`);
  option("--seed", order.seed);
  if (order.light_target) words.push("--light");
  option("--backend", order.backend);
  if (order.gpu_enabled) words.push("--gpu");
  option("--restarts", order.max_restarts);
  option("--deadline", order.deadline_seconds);
  option("--image", order.custom_image_name);
  if (order.queue) words.push("--queue");
  // Its words are quoted already.
  if (order.custom_image_command) words.push("--", order.custom_image_command);
  return words.join(" ");
}

/** @returns {string} what to type to order the same by the REST API at a URL. */
export function toCurl(/** @type {Order} */ order, /** @type {string} */ url) {
  const json = quote(JSON.stringify(order));
  return `curl -u me:$MLBENCH_TOKEN ${quote(`${url}/api/runs/`)} --json ${json}`;
}

// Without an exponent, which the command line does not read everywhere.
function decimal(number) {
  return number.toLocaleString("en", { useGrouping: false, maximumFractionDigits: 20 });
}
