// Elements, and the address of the page with its state. Text is never parsed as HTML, except for notes of runs, which the master renders.

import { urlOf } from "./root.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. Props named `on…` are listeners, `style` has properties with their values, `href`
 * is a URL or a path of the master, and all others are attributes: true gives one without a value.
 * False, null and undefined give no attribute and no child, and an empty text gives no child.
 */
export function h(/** @type {string} */ tag, /** @type {object} */ props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Make an SVG element, like `h`. */
export function svg(/** @type {string} */ tag, /** @type {object} */ props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** @returns {any} the element with an id; the page's template determines its type. */
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
 * and scrolling stay; `update` is called for all of them, `create` for new ones only.
 *
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => unknown} keyOf
 * @param {(item: T) => HTMLElement} create
 * @param {(element: HTMLElement, item: T) => void} [update]
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

/**
 * Give `parent` the child that `make` returns for each item, in order. A child with a known key is
 * changed only where it differs.
 * @type {<T>(parent: Element, items: readonly T[], keyOf: (item: T) => unknown, make: (item: T) => HTMLElement) => void}
 */
export function draw(parent, items, keyOf, make) {
  const children = items.map((item) => ({ key: String(keyOf(item)), child: make(item) }));
  for (const { key, child } of children) child.dataset.key = key;
  reconcile(parent, children, ({ key }) => key, ({ child }) => child, (old, { child }) => old !== child && adapt(old, child));
}

// Give a node the attributes and children of another node with the same name. Children with other names are replaced.
function adapt(/** @type {any} */ node, /** @type {any} */ other) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== other.data) node.data = other.data;
    return;
  }
  for (const { name } of [...node.attributes]) if (!other.hasAttribute(name)) node.removeAttribute(name);
  // The content security policy of the pages refuses the attribute "style".
  for (const { name, value } of other.attributes) if (name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  node.style.cssText = other.style.cssText;
  for (const property of ["checked", "onclick", "onchange"]) if (property in other) node[property] = other[property];
  const old = [...node.childNodes];
  [...other.childNodes].forEach((child, i) => {
    if (old[i]?.nodeName === child.nodeName) adapt(old[i], child);
    else if (old[i]) old[i].replaceWith(child);
    else node.append(child);
  });
  for (const child of old.slice(other.childNodes.length)) child.remove();
}

/** Give a select or a datalist these options. */
export function setOptions(/** @type {Element} */ select, /** @type {string[]} */ values, textOf = (/** @type {string} */ value) => value) {
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

/** Keep values with this entry of the history, where Back and a reload find them again. */
export function keep(/** @type {Record<string, unknown>} */ values) {
  history.replaceState({ ...history.state, ...values }, "");
}

/** @returns {any} the value that was kept under a name; else `otherwise`. */
export function kept(/** @type {string} */ name, /** @type {unknown} */ otherwise) {
  return history.state?.[name] ?? otherwise;
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "style") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else if (name === "href") element.setAttribute(name, urlOf(value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ""));
  return element;
}
