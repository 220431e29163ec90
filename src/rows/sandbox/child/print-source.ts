import type * as Acorn from 'acorn';
import type * as Astring from 'astring';
import { walk } from './walk.ts';

/**
 * The text of these statements, made from the tree that was checked: what the source says between its tokens is not
 * in it, so the engine cannot read it in another way. The word `import` is nowhere in it, not even in a text or a
 * name, so no `import()` can be in it, however it is read.
 *
 * The tree changes: its names and texts get escapes.
 *
 * @throws SyntaxError if a pattern or a template has the word behind a backslash, so that it has no escape
 */
export function printStatements(body: readonly Acorn.Node[], astring: typeof Astring): string {
  const program = { type: 'Program', body, sourceType: 'script' };
  walk(program as unknown as Acorn.Node, escapeWord);
  const text = astring.generate(program as unknown as Parameters<typeof astring.generate>[0]);
  if (text.includes(word)) throw new SyntaxError(`The word ${word} is not supported here.`);
  return text;
}

/** What a tree says, without positions and spelling. Equal trees have equal texts. */
export function shapeOf(body: readonly Acorn.Node[]): string {
  return JSON.stringify(body, (key, value: unknown) => {
    if (spelling.has(key)) return undefined;
    // The text of a directive is that of its literal.
    if (key === 'directive') return true;
    if (key === 'pattern' && typeof value === 'string')
      return value.replaceAll(escapedInPattern, word);
    return typeof value === 'bigint' ? String(value) : value;
  });
}

const word = 'import';
const escaped = '\\u0069mport';
const escapedInPattern = '\\x69mport';
const spelling = new Set(['start', 'end', 'loc', 'raw']);

function escapeWord(node: Acorn.AnyNode): void {
  if (node.type === 'Identifier' || node.type === 'PrivateIdentifier') {
    node.name = node.name.replaceAll(word, escaped);
  } else if (node.type === 'TemplateElement') {
    node.value.raw = node.value.raw.replaceAll(unescapedWord, escaped);
  } else if (node.type === 'Literal' && node.raw?.includes(word)) {
    if (node.regex) {
      const { pattern, flags } = node.regex;
      node.raw = `/${pattern.replaceAll(unescapedWord, escapedInPattern)}/${flags}`;
    } else node.raw = JSON.stringify(node.value).replaceAll(word, escaped);
  }
}

/** Not behind a backslash, which would belong to its first letter. */
const unescapedWord = /(?<!\\)import/g;
