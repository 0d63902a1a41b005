"use strict";
// "Which one is mine?", first part: text and order as Python has them.
const pythonText = (() => {
  const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  const strip = (text) => text.replace(new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "g"), "");
  const split = (text) => text.split(new RegExp(`[${SPACE}]+`)).filter(Boolean);
  const lines = (text) => {
    const all = text.split(/\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/);
    if (all.at(-1) === "") all.pop();
    return all;
  };
  const once = (values) => [...new Set(values)];
  const quote = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`);
  const kept = new Map();
  const pattern = (source, flags) => {
    const key = flags + source;
    if (!kept.has(key)) kept.set(key, new RegExp(source, flags));
    return kept.get(key);
  };
  const search = (source, text) => pattern(source, "u").exec(text);
  const match = (source, text) => pattern(`(?<![^])(?:${source})`, "u").exec(text);
  const full = (source, text) => pattern(`(?<![^])(?:${source})(?![^])`, "u").exec(text);
  const every = (source, text) => [...text.matchAll(pattern(source, "gu"))];
  const parts = (source, text) => text.split(pattern(source, "u"));
  const compare = (one, other) => {
    if (Array.isArray(one)) {
      for (let at = 0; at < one.length && at < other.length; at++) {
        const way = compare(one[at], other[at]);
        if (way) return way;
      }
      return one.length - other.length;
    }
    return one < other ? -1 : one > other ? 1 : 0;
  };
  const sorted = (values, key) =>
    values.map((value) => [key(value), value]).sort((a, b) => compare(a[0], b[0])).map((pair) => pair[1]);
  return { strip, split, lines, once, quote, pattern, search, match, full, every, parts, compare, sorted };
})();
