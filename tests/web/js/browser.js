// The parts of a browser that the modules of the pages use while they are loaded.

process.env.TZ = "Europe/Zurich";

const elements = new Map();
const page = Object.assign(new EventTarget(), {
  hidden: false,
  getElementById: (/** @type {string} */ id) => {
    if (!elements.has(id)) elements.set(id, { textContent: "", hidden: true });
    return elements.get(id);
  },
});
Object.assign(globalThis, { document: page, matchMedia: () => new EventTarget() });

// Node.js 20 lacks groupBy, which the supported browsers have.
Map.groupBy ??= (items, keyOf) => {
  const groups = new Map();
  [...items].forEach((item, i) => groups.set(keyOf(item, i), [...(groups.get(keyOf(item, i)) ?? []), item]));
  return groups;
};
Object.groupBy ??= (items, keyOf) => /** @type {any} */ (Object.fromEntries(Map.groupBy(items, keyOf)));
