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
 * @returns {{ now: () => void, stop: () => void }} call the task at once, or never again
 */
export function poll(/** @type {() => Promise<number | null>} */ task, /** @type {(error: Error) => void} */ onError) {
  let timer = 0;
  let failures = 0;
  let isStopped = false;
  let isBusy = false;
  let isWantedAgain = false;
  const me = Symbol("poll");

  async function turn() {
    clearTimeout(timer);
    timer = 0;
    isWantedAgain = isBusy;
    if (isBusy) return;
    isBusy = true;
    let delay = null;
    let problem = "";
    try {
      delay = await task();
      failures = 0;
    } catch (error) {
      if (!error.isPassing) onError(error);
      else if (!isStopped) {
        delay = Math.min(MAX_RETRY_MS, 1000 * 2 ** failures++);
        problem = `${error.message}. Retrying…`;
      }
    }
    setProblem(me, problem);
    isBusy = false;
    if (isStopped) return;
    if (isWantedAgain) turn();
    else if (delay !== null) timer = setTimeout(turn, delay * (document.hidden ? HIDDEN_FACTOR : 1));
  }

  const onVisibility = () => !document.hidden && timer && turn();

  document.addEventListener("visibilitychange", onVisibility);
  turn();
  return {
    now: turn,
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
      setProblem(me, "");
      document.removeEventListener("visibilitychange", onVisibility);
    },
  };
}

function setProblem(poller, problem) {
  if (problem) problems.set(poller, problem);
  else problems.delete(poller);
  setNotice(byId("connection"), [...problems.values()][0] ?? "");
}
