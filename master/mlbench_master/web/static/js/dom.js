// Elements and the address of the page. Text is never parsed as HTML, except for notes of runs, which the master renders.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. Props named `on…` are listeners, all others attributes: true gives one without
 * a value. False, null and undefined give no attribute and no child.
 */
export function h(/** @type {string} */ tag, /** @type {object} */ props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Make an SVG element, like `h`. */
export function svg(/** @type {string} */ tag, /** @type {object} */ props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** @returns {any} the element with an id; the page's template says of what kind it is. */
export function byId(/** @type {string} */ id) {
  return document.getElementById(id);
}

/** Set an element's text, unless it has it already, so that nothing flickers. */
export function setText(/** @type {Element} */ element, /** @type {unknown} */ text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
}

/** Set an element's text, and hide the element while the text is empty. */
export function setNotice(/** @type {HTMLElement} */ element, /** @type {string} */ text) {
  setText(element, text);
  element.hidden = !text;
}

/**
 * Give `parent` one child per item, in order. Children are reused by key, so that focus, selection
 * and scrolling stay.
 *
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => unknown} keyOf
 * @param {(item: T) => HTMLElement} create
 * @param {(element: HTMLElement, item: T) => void} [update] called for new children, too
 */
export function reconcile(parent, items, keyOf, create, update = () => {}) {
  const children = /** @type {HTMLElement[]} */ ([...parent.children]);
  const old = new Map(children.map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = create(item);
      child.dataset.key = key;
    }
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of old.values()) child.remove();
}

/** Fill a list with texts, and hide it while there are none. */
export function setList(/** @type {HTMLElement} */ list, /** @type {string[]} */ texts) {
  list.hidden = texts.length === 0;
  reconcile(list, texts, String, (text) => h("li", {}, text));
}

/** Give a select or a datalist these options. */
export function setOptions(
  /** @type {Element} */ select,
  /** @type {string[]} */ values,
  /** @type {(value: string) => string} */ textOf = String,
) {
  reconcile(select, values, String, (value) => h("option", { value }), (option, value) => setText(option, textOf(value)));
}

/** Call `act` when a form is sent, for which the page is not left. */
export function onSubmit(/** @type {HTMLElement} */ form, /** @type {() => unknown} */ act) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });
}

/** @returns {string} a parameter of this page's address, or an empty string. */
export function getParam(/** @type {string} */ name) {
  return new URLSearchParams(location.search).get(name) ?? "";
}

/** @returns {string[]} all values of a parameter of this page's address. */
export function getParams(/** @type {string} */ name) {
  return new URLSearchParams(location.search).getAll(name);
}

/** Change parameters of this page's address without a history entry; empty ones are removed. */
export function setParams(/** @type {Record<string, string | string[]>} */ params) {
  const url = new URL(location.href);
  for (const [name, values] of Object.entries(params)) {
    const [first, ...others] = [values].flat().filter(Boolean);
    if (first) url.searchParams.set(name, first);
    else url.searchParams.delete(name);
    for (const other of others) url.searchParams.append(name, other);
  }
  url.search = url.search.replaceAll("%2C", ","); // a list of runs stays readable
  if (url.href !== location.href) history.replaceState(history.state, "", url);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}
