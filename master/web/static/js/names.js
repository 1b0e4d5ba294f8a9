// Names that the series have, as in mlbench/names.py; a test compares them.

/** Where the time of a step goes, in this order. */
export const PHASES = [
  "data",
  "forward",
  "backward",
  "communication",
  "optimizer",
  "metrics",
  "evaluation",
];
