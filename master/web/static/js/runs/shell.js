// Words of a command line, taken apart and quoted as Python's shlex does at the master. Pure.

const SAFE = /^[\w@%+=:,./-]+$/;

/** @returns {string} a text as one word of a command line. */
export function quote(/** @type {string} */ text) {
  return SAFE.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

/** @returns {string[] | null} the words of a command; null where a quotation is not closed. */
export function split(/** @type {string} */ command) {
  const words = [];
  let word = null;
  let open = "";
  for (let i = 0; i < command.length; i++) {
    const sign = command[i];
    if (sign === "\\" && open !== "'") {
      i += 1;
      if (i === command.length) return null;
      // Between double quotes, it protects these alone.
      const isPlain = open === '"' && !'"\\'.includes(command[i]);
      word = (word ?? "") + (isPlain ? sign : "") + command[i];
    } else if (sign === open) {
      open = "";
    } else if (!open && (sign === '"' || sign === "'")) {
      open = sign;
      word ??= "";
    } else if (!open && " \t\r\n".includes(sign)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + sign;
    }
  }
  if (open) return null;
  return word === null ? words : [...words, word];
}

/** @returns {string} a command with each of its words quoted in the one usual way. */
export function normalize(/** @type {string} */ command) {
  return split(command)?.map(quote).join(" ") ?? command;
}
