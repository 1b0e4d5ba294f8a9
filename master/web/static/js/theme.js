// The theme: as the system has it, light, or dark; remembered in this browser.

const KEY = "mlbench-theme";
const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
// Asking for one has the browser work out the page's styles first.
const colours = new Map();

dark.addEventListener("change", () => colours.clear());

/** @returns {string} auto, light or dark: what was chosen. */
export function chosen() {
  return document.documentElement.dataset.theme ?? "auto";
}

/** Go on to the next theme, and tell everyone who listens. */
export function next() {
  const theme = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length];
  if (theme === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem(KEY);
  } else {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(KEY, theme);
  }
  colours.clear();
  document.dispatchEvent(new Event("themechange"));
}

/** Call `listener` whenever colours change, by choice or by the system. */
export function onChange(/** @type {() => void} */ listener) {
  document.addEventListener("themechange", listener);
  dark.addEventListener("change", listener);
}

/** @returns {boolean} whether the page is dark now. */
export function isDark() {
  return chosen() === "dark" || (chosen() === "auto" && dark.matches);
}

/** @returns {string} one of the style sheet's colours, such as `--ink`, as it is now. */
export function colour(/** @type {string} */ name) {
  if (!colours.has(name)) {
    const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    // Before the style sheet is there, there is none.
    if (!value) return value;
    const both = /^light-dark\((.+), (.+)\)$/.exec(value);
    colours.set(name, both ? both[isDark() ? 2 : 1] : value);
  }
  return colours.get(name);
}
