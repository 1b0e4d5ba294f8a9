// Polling: less often while the tab is hidden, and not at all once nothing can change.

import { byId, setNotice } from "./dom.js";

const HIDDEN_FACTOR = 6;
const MAX_RETRY_MS = 15_000;

// The connection problem of each poll on this page that has one.
const problems = new Map();

/**
 * Call `task` repeatedly until it returns null; otherwise it returns the milliseconds to wait.
 * While the master is unreachable, the page shows a notice and polling continues. Any other error stops
 * the polling until `now` is called.
 * @returns {{ now: () => void }} calls the task at once
 */
export function poll(/** @type {() => Promise<number | null>} */ task, /** @type {(error: Error) => void} */ onError) {
  let timer = 0;
  let failures = 0;
  let isBusy = false;
  let isWantedAgain = false;

  async function turn() {
    clearTimeout(timer);
    timer = 0;
    isWantedAgain = isBusy;
    if (isBusy) return;
    isBusy = true;
    let delay = null;
    try {
      delay = await task();
      failures = 0;
      problems.delete(turn);
    } catch (error) {
      if (error.isPassing) {
        delay = Math.min(MAX_RETRY_MS, 1000 * 2 ** failures++);
        problems.set(turn, `${error.message}. Retrying…`);
      } else {
        problems.delete(turn);
        onError(error);
      }
    }
    setNotice(byId("connection"), [...problems.values()][0] ?? "");
    isBusy = false;
    if (isWantedAgain) turn();
    else if (delay !== null) timer = setTimeout(turn, delay * (document.hidden ? HIDDEN_FACTOR : 1));
  }

  document.addEventListener("visibilitychange", () => !document.hidden && timer && turn());
  turn();
  return { now: turn };
}
