// Markdown as elements: headings, lists, quotes, code, emphasis and links. Text is never parsed as
// HTML, and nothing is loaded from elsewhere: an image becomes a link to it.

import { h } from "./dom.js";

const FENCE = /^ {0,3}```/;
const HEADING = /^#{1,6} +(?=\S)/;
const QUOTE = /^> ?/;
const BULLET = /^[-*+] +(?=\S)/;
const NUMBER = /^\d{1,9}[.)] +(?=\S)/;
const INDENTED = /^(?: {2,4}|\t)/;
const BLOCKS = [FENCE, HEADING, QUOTE, BULLET, NUMBER];
// Each alternative ends at the first character that it does not take, so that no text is slow.
const INLINE =
  /(`{1,2})([^`]+)\1|!?\[([^[\]]+)\]\(([^\s()]+)\)|(https?:\/\/[^\s<>()]+)|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|(?<!\w)_([^_]+)_(?!\w)/g;
const ADDRESS = /^https?:\/\//i;
// Deeper lists and quotes stay text.
const MAX_DEPTH = 5;

/** @returns {(Node | string)[]} Markdown text as elements. */
export function markdown(/** @type {string} */ text) {
  return blocksOf(text.split("\n"), 0);
}

function blocksOf(/** @type {string[]} */ lines, /** @type {number} */ depth) {
  const blocks = [];
  let at = 0;
  const take = (/** @type {(line: string) => boolean} */ isPart) => {
    const from = at;
    while (at < lines.length && isPart(lines[at])) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      at += 1;
    } else if (FENCE.test(line)) {
      at += 1;
      const code = take((next) => !FENCE.test(next));
      at += 1;
      blocks.push(h("pre", {}, h("code", {}, code.join("\n"))));
    } else if (HEADING.test(line)) {
      at += 1;
      const level = line.indexOf(" ");
      // The page has its own first and second ones.
      blocks.push(h(`h${Math.min(level + 2, 6)}`, {}, inline(line.replace(HEADING, ""))));
    } else if (QUOTE.test(line) && depth < MAX_DEPTH) {
      const inner = take((next) => QUOTE.test(next)).map((next) => next.replace(QUOTE, ""));
      blocks.push(h("blockquote", {}, blocksOf(inner, depth + 1)));
    } else if ((BULLET.test(line) || NUMBER.test(line)) && depth < MAX_DEPTH) {
      const mark = BULLET.test(line) ? BULLET : NUMBER;
      const items = [];
      while (at < lines.length && mark.test(lines[at])) {
        const first = lines[at].replace(mark, "");
        at += 1;
        const rest = take((next) => INDENTED.test(next)).map((next) => next.replace(INDENTED, ""));
        items.push(h("li", {}, inline(first), blocksOf(rest, depth + 1)));
      }
      blocks.push(h(mark === BULLET ? "ul" : "ol", {}, items));
    } else {
      at += 1;
      const rest = take((next) => Boolean(next.trim()) && !BLOCKS.some((kind) => kind.test(next)));
      blocks.push(h("p", {}, inline([line, ...rest].join("\n"))));
    }
  }
  return blocks;
}

/** @returns {(Node | string)[]} */
function inline(/** @type {string} */ text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, , code, label, target, address, strong, starred, underlined] = match;
    parts.push(text.slice(end, match.index));
    end = match.index + whole.length;
    if (code !== undefined) parts.push(h("code", {}, code));
    else if (address) parts.push(link(address, [address]));
    else if (label) parts.push(...(ADDRESS.test(target) ? [link(target, inline(label))] : [whole]));
    else if (strong) parts.push(h("strong", {}, inline(strong)));
    else parts.push(h("em", {}, inline(starred ?? underlined)));
  }
  return [...parts, text.slice(end)];
}

function link(/** @type {string} */ href, /** @type {(Node | string)[]} */ label) {
  return h("a", { href, target: "_blank", rel: "noopener noreferrer" }, label);
}
