// Makes elements and keeps lists of them up to date. Texts are texts: no HTML is ever parsed.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. Of `props`, `on…` are listeners, `class` and `aria-…` attributes; true is an
 * attribute without a value, and false, null and undefined leave one out. Children that are null,
 * undefined or false are left out, all others that are no nodes are texts.
 */
export function h(/** @type {string} */ tag, /** @type {object} */ props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function svg(/** @type {string} */ tag, /** @type {object} */ props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** @returns {any} the element with an id: of what kind it is, the page's template says. */
export function byId(/** @type {string} */ id) {
  return document.getElementById(id);
}

/** Give `element` the text; where it has it already, nothing changes, so that nothing flickers. */
export function setText(/** @type {Element} */ element, /** @type {unknown} */ text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
}

/**
 * Give `parent` one child for each item, in their order. Children are kept by key, so focus,
 * selection and scrolling stay.
 *
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => unknown} keyOf
 * @param {(item: T) => HTMLElement} create
 * @param {(element: HTMLElement, item: T) => void} update
 */
export function keep(parent, items, keyOf, create, update) {
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

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}
