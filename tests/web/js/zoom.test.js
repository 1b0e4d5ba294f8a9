import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import { formatZoom, parseZoom } from "../../../master/mlbench_master/web/static/js/look.js";

const MINUTES = { axis: "wall", unit: 60 };

test("the range in the URL is in seconds for any unit of a chart", () => {
  const text = formatZoom([1.5, 2 + 1 / 3], MINUTES);
  equal(text, "wall,90,140");
  deepEqual(parseZoom(text, { axis: "wall", unit: 1 }), [90, 140]);
});

for (const text of ["", "step,1,2", "wall,2,1", "wall,1", "wall,a,b"]) {
  test(`the URL parameter ${text || "nothing"} shows the whole axis`, () => equal(parseZoom(text, MINUTES), null));
}
