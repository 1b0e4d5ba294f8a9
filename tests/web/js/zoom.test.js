import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import { formatZoom, parseZoom } from "../../../master/mlbench_master/web/static/js/look.js";

const MINUTES = { axis: "wall", unit: 60 };

test("the address has a range in seconds, whatever the unit of a chart", () => {
  const text = formatZoom([1.5, 2 + 1 / 3], MINUTES);
  equal(text, "wall,90,140");
  deepEqual(parseZoom(text, { axis: "wall", unit: 1 }), [90, 140]);
});

for (const text of ["", "step,1,2", "wall,2,1", "wall,1", "wall,a,b"]) {
  test(`an address that says ${text || "nothing"} shows all of the axis`, () => equal(parseZoom(text, MINUTES), null));
}
