// Asks again and again: seldom while the tab is hidden, not at all once nothing can change.

import { setText } from "./dom.js";

const HIDDEN_FACTOR = 6;
const LONGEST_MS = 15_000;

// What keeps each poll of this page from going on.
const problems = new Map();

/**
 * Call `task` until it answers null. Its answer is after how many milliseconds to call again.
 * While the master is away the page keeps what it shows and says so; any other error ends it, until
 * it is called at once.
 *
 * @param {() => Promise<number | null>} task
 * @param {(error: Error) => void} onError
 * @returns {{ now: () => void, stop: () => void }} to call it at once, or never again
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
      tellConnection(me, "");
    } catch (error) {
      if (!error.isPassing) {
        tellConnection(me, "");
        onError(error);
      } else if (!isStopped) {
        delay = Math.min(LONGEST_MS, 1000 * 2 ** failures++);
        tellConnection(me, `${error.message}. Trying again…`);
      }
    }
    isBusy = false;
    if (isStopped) return;
    if (isWantedAgain) turn();
    else if (delay !== null) timer = setTimeout(turn, document.hidden ? delay * HIDDEN_FACTOR : delay);
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
      tellConnection(me, "");
      document.removeEventListener("visibilitychange", onVisibility);
    },
  };
}

function tellConnection(poller, problem) {
  if (problem) problems.set(poller, problem);
  else problems.delete(poller);
  const line = document.getElementById("connection");
  setText(line, [...problems.values()][0] ?? "");
  line.hidden = problems.size === 0;
}
