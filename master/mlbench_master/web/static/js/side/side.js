// The charts of the runs in a list beside it, and the verdict on them: templates/_side.html.

import { ApiError } from "../api.js";
import { Loader, hasEnded } from "../compare/loader.js";
import { byId, getParam, setNotice, setParams } from "../dom.js";
import { poll } from "../poll.js";
import { connectTabs } from "../tabs.js";
import { errorState } from "../ui.js";
import { Charts } from "./charts.js";
import { Verdict } from "./verdict.js";

/**
 * @import { Run } from "../records.js"
 * @import { Found } from "../compare/loader.js"
 *
 * A run of the list, with its style; a hidden one has no curve.
 * @typedef {{ run: Run, colour: string, dash: "solid" | "dash" | "dot", hidden: boolean }} ShownRun
 */

const POLL_MS = 5000;

export class Side {
  /** Called with each comparison that is shown; null when there is none. */
  onFound = (/** @type {Found | null} */ _found) => {};
  /** @type {ShownRun[]} */
  #runs = [];
  /** @type {Found | null} */
  #found = null;
  #loader = new Loader();
  #charts = new Charts(this.#loader, () => this.#redraw(), (ids) => this.highlight(ids));
  #verdict = new Verdict();
  /** @type {ReturnType<typeof poll> | null} */
  #poller = null;

  constructor() {
    const showTab = connectTabs(byId("tabs"), (tab) => setParams({ tab: tab === "charts" ? "" : tab }));
    showTab(getParam("tab"));
    byId("what-differs").addEventListener("click", () => byId("verdict-tab").click());
  }

  /** Show these runs. What no longer changes is fetched once. */
  show(/** @type {ShownRun[]} */ runs) {
    const before = this.#key();
    this.#runs = runs;
    if (this.#found && before === this.#key()) this.#redraw();
    else if (this.#poller) this.#poller.now();
    else this.#poller = poll(() => this.#refresh(), (error) => this.#fail(error));
  }

  /** Show these runs strongly, in charts and in rows with `data-runs`; without ids, show all alike. */
  highlight(/** @type {number[]} */ ids) {
    this.#charts.highlight(ids);
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-runs]")))
      row.classList.toggle("lit", row.dataset.runs.split(" ").some((id) => ids.includes(Number(id))));
  }

  /** Compare by another target than the runs' own; an empty one is each run's own. */
  setTarget(/** @type {string} */ target) {
    setParams({ target });
    this.#poller?.now();
  }

  #key() {
    return [getParam("target"), ...this.#runs.map(({ run }) => run.id)].join();
  }

  async #refresh() {
    const key = this.#key();
    if (!this.#runs.length) {
      this.#say(null, "Select runs to see their curves and what they differ in.");
      return null;
    }
    if (!this.#found) this.#say(null, "Loading…");
    const found = await this.#loader.compare(new Map(this.#runs.map(({ run }) => [run.id, run.title])), getParam("target"));
    if (key !== this.#key()) return null; // The selection changed, and the poll turns again.
    this.#say(found, found ? "" : "The runs were not found. They may have been deleted.");
    if (!found) return null;
    await this.#draw();
    return found.manifests.every(hasEnded) ? null : POLL_MS;
  }

  async #draw() {
    this.#verdict.show(this.#found, this.#runs);
    await this.#charts.show(this.#found, this.#runs);
  }

  #redraw() {
    this.#draw().catch((error) => this.#fail(error));
  }

  #fail(/** @type {Error} */ error) {
    this.#say(null, " ");
    const isOfTarget = error instanceof ApiError && error.status === 400;
    byId("side-message").replaceChildren(errorState(error, () => (isOfTarget ? this.setTarget("") : this.#poller.now())));
  }

  #say(/** @type {Found | null} */ found, /** @type {string} */ text) {
    this.#found = found;
    setNotice(byId("side-message"), text);
    for (const panel of ["charts-panel", "verdict-panel"]) byId(panel).classList.toggle("is-empty", !found);
    this.onFound(found);
  }
}
