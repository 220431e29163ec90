import { setFlagsFromString } from 'node:v8';
import { hasSqlDetails, loadModule, parseSync, type ScanToken, scanSync } from 'libpg-query';
import { problemAt, type QueryProblem } from './problem.ts';

// The optimizing compiler of V8 13 (Node 24) takes 600 MB for the parser's largest functions, and they get no faster.
// Both flags are needed, for good: with one alone, or once they are set back, V8 optimizes them after all.
if (Number.parseInt(process.versions.v8, 10) >= 13) {
  setFlagsFromString('--no-wasm-tier-up');
  setFlagsFromString('--no-wasm-dynamic-tiering');
}

// The parser is WebAssembly. It is loaded here, so that callers need not care.
await loadModule();

export const maxCharacters = 10_000;
const maxTokens = 5_000;
/** Tokens on one path into the tree: about 1,900 nested NOTs exhaust the parser's stack, and a trap never frees it. */
const maxPath = 800;
/** Operator characters in a row. The lexer reads a run of `+` once per character: ten thousand block for a second. */
const maxRun = 64;
const longRun = new RegExp(`[-+*/<>=~!@#%^&|\`?]{${maxRun + 1}}`);
/** PostgreSQL cuts longer names without an error: a key would become another key. */
const maxNameBytes = 63;

export type Tokens = readonly ScanToken[];

export type ParseOutcome =
  | { readonly statements: readonly unknown[]; readonly tokens: Tokens }
  | { readonly problem: QueryProblem };

export function positionAt(text: string, offset: number): number {
  return Array.from(Buffer.from(text).subarray(0, Math.max(0, offset)).toString()).length + 1;
}

export function parseSql(text: string): ParseOutcome {
  const problem = checkCharacters(text);
  if (problem) return { problem };
  const tokens = tokensOf(text);
  // If the lexer fails, the parser fails too, without building a tree, and says at which position.
  const tokenProblem = tokens && checkTokens(text, tokens);
  if (tokenProblem) return { problem: tokenProblem };
  try {
    const statements: readonly unknown[] = parseSync(text).stmts ?? [];
    return { statements, tokens: tokens ?? [] };
  } catch (error) {
    return { problem: describeSyntaxError(error) };
  }
}

export function tokensOf(text: string): Tokens | null {
  try {
    return scanSync(text).tokens.filter(({ tokenName }) => !tokenName.endsWith('_COMMENT'));
  } catch {
    return null;
  }
}

function checkCharacters(text: string): QueryProblem | null {
  if (text.trim() === '') return problemAt('empty query', 1, 'Write a SELECT.');
  if (text.length > maxCharacters) {
    const message = `Shorten the query to at most ${maxCharacters} characters.`;
    return problemAt('long query', maxCharacters + 1, message);
  }
  const run = longRun.exec(text);
  if (run) {
    const message = `Write at most ${maxRun} operator characters in a row.`;
    const position = Array.from(text.slice(0, run.index)).length + 1;
    return problemAt('long operator', position, message);
  }
  // The parser reads C strings of UTF-8: it would stop at a NUL and change a lone surrogate.
  const bad = /[^\P{Cc}\t\n\r\x7f-\x9f]|\p{Cs}/u.exec(text);
  if (!bad) return null;
  const code = bad[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
  const position = Array.from(text.slice(0, bad.index)).length + 1;
  return problemAt(`character U+${code}`, position, 'is not supported.');
}

function checkTokens(text: string, tokens: Tokens): QueryProblem | null {
  const tooDeep = tokens[maxTokens] ?? firstTooDeep(tokens);
  if (tooDeep) {
    const message = 'The query has too many parts. Shorten its expressions.';
    return problemAt('long expression', positionAt(text, tooDeep.start), message);
  }
  const tooLong = tokens.find((token) => nameBytes(token) > maxNameBytes);
  if (!tooLong) return null;
  const message =
    `Names have at most ${maxNameBytes} bytes in PostgreSQL. ` +
    `Reach a longer key as properties ->> 'key'.`;
  return problemAt('long name', positionAt(text, tooLong.start), message);
}

/** The tree could become deeper than `maxPath`. Parts between commas are siblings; all others may be nested. */
function firstTooDeep(tokens: Tokens): ScanToken | undefined {
  const outer: { path: number; deepest: number }[] = [];
  let level = { path: 0, deepest: 0 };
  let total = 0;
  return tokens.find(({ text }) => {
    if (text === ',' || text === ';') {
      level.deepest = Math.max(level.deepest, level.path);
      total -= level.path;
      level.path = 0;
      return false;
    }
    const parent = text === ')' || text === ']' ? outer.pop() : undefined;
    if (parent) {
      const within = Math.max(level.deepest, level.path);
      total += within - level.path;
      level = parent;
      level.path += within;
    }
    level.path += 1;
    total += 1;
    if (text === '(' || text === '[') {
      outer.push(level);
      level = { path: 0, deepest: 0 };
    }
    return total > maxPath;
  });
}

function nameBytes({ text, tokenName, keywordKind }: ScanToken): number {
  const quoted = /^(?:u&)?"(.*)"$/is.exec(text)?.[1];
  if (quoted !== undefined) return Buffer.byteLength(quoted.replaceAll('""', '"'));
  return tokenName === 'IDENT' && keywordKind === 0 ? Buffer.byteLength(text) : 0;
}

function describeSyntaxError(error: unknown): QueryProblem {
  if (hasSqlDetails(error)) {
    // Unlike the offsets in trees, this one is in characters.
    const position = (error.sqlDetails?.cursorPosition ?? 0) + 1;
    const hint = error.message.endsWith('"$"') ? ' Quote such a name: properties."$name".' : '';
    return problemAt('syntax error', position, `${sentence(error.message)}${hint}`);
  }
  return problemAt('nesting', 1, 'The query is nested too deeply. Use fewer levels.');
}

function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}
