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
 *
 * @param {() => Promise<number | null>} task
 * @param {(error: Error) => void} onError
 * @returns {{ now: () => void, stop: () => void }} call the task at once, or never again
 */
export function poll(task, onError) {
  let timer = 0;
  let failures = 0;
  let isStopped = false;
  let isBusy = false;
  let isWantedAgain = false;
  const me = Symbol("poll");

  async function turn() {
    clearTimeout(timer);
    timer = 0;
    if (isBusy) {
      isWantedAgain = true;
      return;
    }
    isBusy = true;
    isWantedAgain = false;
    let delay = null;
    try {
      delay = await task();
      failures = 0;
      setProblem(me, "");
    } catch (error) {
      if (!error.isPassing) {
        setProblem(me, "");
        onError(error);
      } else if (!isStopped) {
        delay = Math.min(MAX_RETRY_MS, 1000 * 2 ** failures++);
        setProblem(me, `${error.message}. Retrying…`);
      }
    }
    isBusy = false;
    if (isStopped) return;
    const factor = document.hidden ? HIDDEN_FACTOR : 1;
    if (isWantedAgain) turn();
    else if (delay !== null) timer = setTimeout(turn, delay * factor);
  }

  function onVisibility() {
    if (!document.hidden && timer) turn();
  }

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
