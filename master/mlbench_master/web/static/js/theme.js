// The theme: the system's (auto), light, or dark. The browser remembers the choice.

const KEY = "mlbench-theme";
const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
// Cached, because each lookup makes the browser compute the page's styles.
const colours = new Map();

dark.addEventListener("change", () => colours.clear());

/** @returns {string} the chosen theme: auto, light or dark. */
export function chosen() {
  return document.documentElement.dataset.theme ?? "auto";
}

export function next() {
  const theme = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length];
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(KEY, theme);
  colours.clear();
  document.dispatchEvent(new Event("themechange"));
}

/** Call `listener` whenever the colours change. */
export function onChange(/** @type {() => void} */ listener) {
  document.addEventListener("themechange", listener);
  dark.addEventListener("change", listener);
}

/** @returns {boolean} whether the page is dark. */
export function isDark() {
  return chosen() === "dark" || (chosen() === "auto" && dark.matches);
}

/** @returns {string} the current value of a colour of the style sheet, such as `--ink`. */
export function colour(/** @type {string} */ name) {
  if (!colours.has(name)) {
    const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    if (!value) return value; // the style sheet is still loading
    const both = /^light-dark\((.+), (.+)\)$/.exec(value);
    colours.set(name, both ? both[isDark() ? 2 : 1] : value);
  }
  return colours.get(name);
}
