// The charts of the runs in a list beside it, and the verdict on them.

import { ApiError } from "../api.js";
import { Loader, hasEnded } from "../compare/loader.js";
import { getParam, getParams, h, setParams, setText } from "../dom.js";
import { poll } from "../poll.js";
import { errorState } from "../ui.js";
import { Charts } from "./charts.js";
import { AXES } from "./columns.js";
import { makeTabs } from "./tools.js";
import { Verdict } from "./verdict.js";

/**
 * @import { Run } from "../records.js"
 * @import { Found } from "../compare/loader.js"
 *
 * A run of the list, with its style; a hidden one has no curve.
 * @typedef {{ run: Run, colour: string, dash: "solid" | "dash" | "dot", hidden: boolean }} ShownRun
 *
 * What is shown of the runs, as the page's address has it. An empty target is each run's own, no
 * metrics are the default ones, and an empty axis is the first that the runs have recorded.
 * @typedef {{ target: string, metrics: string[], axis: string, ofGroups: boolean, tab: string }} View
 */

const POLL_MS = 5000;
const TABS = ["Charts", "Verdict"];

export class Side {
  /** Called with the ids of the runs under the cursor; empty when there are none. */
  onHighlight = (/** @type {number[]} */ _ids) => {};
  /** Called with each comparison that is shown; null when there is none. */
  onFound = (/** @type {Found | null} */ _found) => {};
  /** @type {ShownRun[]} */
  #runs = [];
  /** @type {Found | null} */
  #found = null;
  #view = viewOf();
  #loader = new Loader();
  #message = h("div", { class: "side-message soft" });
  #poller = null;
  /** @type {(name: string) => void} */
  #choose;
  /** @type {HTMLElement[]} */
  #panels;
  /** @type {HTMLElement[]} */
  #controls;
  /** @type {Charts} */
  #charts;
  /** @type {Verdict} */
  #verdict;

  /** @param {HTMLElement} place an element of the page */
  constructor(place) {
    const { list, panels, choose } = makeTabs(TABS, (tab) => this.change({ tab }));
    this.#choose = choose;
    this.#panels = panels;
    this.#charts = new Charts(panels[0], this.#loader, {
      onView: (part) => this.change(part),
      onHover: (ids) => this.highlight(ids),
      onVerdict: () => this.change({ tab: "Verdict" }),
    });
    this.#verdict = new Verdict(panels[1]);
    place.classList.add("side");
    this.#controls = this.#charts.controls();
    place.append(h("div", { class: "side-bar" }, list, ...this.#controls), this.#message, ...panels);
    this.#charts.start();
    this.#open(this.#view.tab);
    this.#say("");
  }

  /** Show these runs. What no longer changes is fetched once. */
  show(/** @type {ShownRun[]} */ runs) {
    const before = this.#key();
    this.#runs = runs;
    if (this.#found && before === this.#key()) {
      this.#charts.restyle(runs);
      this.#verdict.show(this.#found, runs);
    } else if (this.#poller) this.#poller.now();
    else this.#poller = poll(() => this.#refresh(), (error) => this.#fail(error));
  }

  /** Show these runs strongly, and the others pale; without ids, show all alike. */
  highlight(/** @type {number[]} */ ids) {
    this.#charts.highlight(ids);
    this.onHighlight(ids);
  }

  /** Change what is shown of the runs. */
  change(/** @type {Partial<View>} */ part) {
    const { target } = this.#view;
    this.#view = { ...this.#view, ...part };
    const { metrics: metric, axis, ofGroups, tab } = this.#view;
    setParams({ target: this.#view.target, metric, axis, curves: ofGroups ? "groups" : "", tab: tab === TABS[0] ? "" : tab.toLowerCase() });
    this.#open(tab);
    if (this.#view.target !== target) this.#poller?.now();
    else if (this.#found && !("tab" in part)) this.#draw().catch((error) => this.#fail(error));
  }

  #open(/** @type {string} */ tab) {
    this.#choose(tab);
    for (const control of this.#controls) control.hidden = tab !== TABS[0];
  }

  #key() {
    return [this.#view.target, ...this.#runs.map(({ run }) => run.id)].join();
  }

  async #refresh() {
    const key = this.#key();
    if (!this.#runs.length) {
      this.#show(null);
      this.#say("Select runs to see their curves and what they differ in.");
      return null;
    }
    if (!this.#found) this.#say("Loading…");
    const titles = new Map(this.#runs.map(({ run }) => [run.id, run.title]));
    const found = await this.#loader.compare([...titles.keys()], this.#view.target, titles);
    if (key !== this.#key()) return null; // The selection changed, and the poll turns again.
    this.#show(found.comparison ? found : null);
    this.#say(this.#found ? "" : "The runs were not found. They may have been deleted.");
    if (!this.#found) return null;
    await this.#draw();
    return found.manifests.every(hasEnded) ? null : POLL_MS;
  }

  async #draw() {
    this.#verdict.show(this.#found, this.#runs);
    await this.#charts.show(this.#found, this.#runs, this.#view);
  }

  #show(/** @type {Found | null} */ found) {
    this.#found = found;
    this.#panels.forEach((panel) => panel.classList.toggle("is-empty", !found));
    this.onFound(found);
  }

  #fail(/** @type {Error} */ error) {
    this.#show(null);
    const isOfTarget = error instanceof ApiError && error.status === 400;
    this.#message.replaceChildren(errorState(error, () => (isOfTarget ? this.change({ target: "" }) : this.#poller.now())));
    this.#message.hidden = false;
  }

  #say(/** @type {string} */ text) {
    setText(this.#message, text);
    this.#message.hidden = !text;
  }
}

/** @returns {View} the view that the page's address describes */
function viewOf() {
  const axis = getParam("axis");
  return {
    target: getParam("target"),
    metrics: getParams("metric").filter(Boolean),
    axis: axis in AXES ? axis : "",
    ofGroups: getParam("curves") === "groups",
    tab: getParam("tab") === "verdict" ? "Verdict" : TABS[0],
  };
}
