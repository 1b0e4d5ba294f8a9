// The tab "Verdict": whether the runs can be compared, their results, and in what they differ.

import { MEASURES, hasMean } from "../compare/answer.js";
import { showCells } from "../compare/cells.js";
import { Differences } from "../compare/differences.js";
import { addTableMenu } from "../compare/menus.js";
import { resultColumns } from "../compare/results.js";
import { Scaling } from "../compare/scaling.js";
import { foldsOf, showFolds, showHeadline } from "../compare/verdict.js";
import { byId } from "../dom.js";
import { fillTable } from "../ui.js";

/**
 * @import { Found } from "../compare/loader.js"
 * @import { ShownRun } from "./side.js"
 */

export class Verdict {
  #scaling = new Scaling();
  #differences = new Differences();

  constructor() {
    for (const [id, title] of [["results", "Results"], ["differences", "Differences"], ["group-figures", "Groups"]]) addTableMenu(byId(id), title);
  }

  show(/** @type {Found} */ found, /** @type {ShownRun[]} */ runs) {
    const { comparison, manifests } = found;
    const { groups, results, sweep } = comparison;
    showHeadline(byId("verdict-headline"), comparison);
    showFolds(byId("verdict-folds"), foldsOf(comparison, manifests, new Map(manifests.map(({ run_id, seed }) => [run_id, seed]))));
    const columns = resultColumns(results, (id) => runs.find(({ run }) => run.id === id));
    fillTable(byId("results"), columns, results, (result) => result.run_id);
    byId("sweep").hidden = !sweep;
    for (const [name, measure] of Object.entries(MEASURES)) {
      const place = byId(`sweep-${name}`);
      place.parentElement.hidden = !groups.some((group) => hasMean(group, measure));
      if (sweep && !place.parentElement.hidden) showCells(place, comparison, measure, ({ run_ids: ids }) => `/compare?runs=${ids.join(",")}`);
    }
    this.#scaling.show(groups);
    this.#differences.show(found);
  }
}
