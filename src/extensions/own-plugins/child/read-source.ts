import type * as Acorn from 'acorn';
import type * as Astring from 'astring';
import type * as Sucrase from 'sucrase';
import { findUnsupported } from './find-unsupported.ts';
import { exportsAsValues } from './module-exports.ts';
import type { SourceProblem } from './source-problem.ts';
import { walk } from './walk.ts';

/**
 * Reads the source of a plugin in the sandbox's process, before any of it runs: to parse hostile text
 * may take long, and must not hold up the service.
 */

/** The libraries; their files are read before the process loses its access to files. */
export interface Parsers {
  readonly acorn: typeof Acorn;
  readonly astring: typeof Astring;
  readonly sucrase: () => typeof Sucrase;
}

export interface ReadSource {
  /** A script, whose one value is the plugin's wrapper. It is printed from the tree that was checked. */
  readonly script: string;
  /** It uses `export`, not `module.exports`. */
  readonly isModule: boolean;
  readonly problems: readonly SourceProblem[];
}

const language = { ecmaVersion: 2023, allowHashBang: false } as const;

/** @param globalNames what the plugin may use, as constants of the wrapper */
export function readSource(
  source: string,
  globalNames: readonly string[],
  parsers: Parsers,
): ReadSource {
  const read = parseAny(source, parsers);
  if ('detail' in read) return { script: '', isModule: false, problems: [read] };
  const { program, text } = read;
  const problems = findUnsupported(program);
  const body = exportsAsValues(program, text);
  const { isModule } = body;
  problems.push(...body.problems);
  if (problems.length > 0) return { script: '', isModule, problems };
  const printed = attempt(() => print(body.statements, globalNames, body.parameter, parsers));
  if ('problem' in printed) return { script: '', isModule, problems: [printed.problem] };
  return { script: printed.value, isModule, problems };
}

type Parsed = { readonly program: Acorn.Program; readonly text: string };

/** Tries the text as a module, as a script, and at last as TypeScript. */
function parseAny(source: string, { acorn, sucrase }: Parsers): Parsed | SourceProblem {
  const asModule = attempt(() =>
    acorn.parse(source, { ...language, sourceType: 'module', locations: true }),
  );
  if ('value' in asModule) return { program: asModule.value, text: source };
  const asScript = attempt(() =>
    acorn.parse(source, {
      ...language,
      sourceType: 'script',
      locations: true,
      allowReturnOutsideFunction: true,
    }),
  );
  if ('value' in asScript) return { program: asScript.value, text: source };
  let text = '';
  const stripped = attempt(() => {
    const { code } = sucrase().transform(source, {
      transforms: ['typescript'],
      disableESTransforms: true,
    });
    text = code;
    return acorn.parse(code, { ...language, sourceType: 'module', locations: true });
  });
  if ('value' in stripped) return { program: stripped.value, text };
  // Plain JavaScript with a mistake is best described by the parser that understood most of it.
  return stripped.at >= asModule.at ? stripped.problem : asModule.problem;
}

type Attempt<Value> =
  | { readonly value: Value }
  | { readonly problem: SourceProblem; readonly at: number };

function attempt<Value>(make: () => Value): Attempt<Value> {
  try {
    return { value: make() };
  } catch (error) {
    const { loc, message } = error as { loc?: { line: number; column: number }; message?: string };
    const detail = String(message ?? 'The source cannot be read.')
      .replace(/^Error transforming \S*: /, '')
      .replace(/ ?\(\d+:\d+\)$/, '');
    const line = loc?.line ?? null;
    return { problem: { line, detail }, at: (line ?? 0) * 100_000 + (loc?.column ?? 0) };
  }
}

/**
 * The script that the engine runs. Two parsers may read a source differently, so the engine gets no text of the source:
 * it gets the tree that was checked, printed, and parsed again as the engine parses it.
 *
 * @throws SyntaxError if the printed text does not say what the tree says
 */
function print(
  statements: readonly Acorn.Node[],
  globalNames: readonly string[],
  parameter: string,
  { acorn, astring }: Parsers,
): string {
  const shape = shapeOf(statements);
  const text = printStatements(statements, astring);
  const script = `(function(){"use strict";const {${globalNames.join(',')}}=arguments[0];return function(module,exports,${parameter}){return function(){\n${text}\n}();}})`;
  const { body } = acorn.parse(script, { ...language, sourceType: 'script' });
  const inner = body.length === 1 ? innermostFunction(body[0]) : undefined;
  if (inner && shapeOf(inner.body) === shape) return script;
  throw new SyntaxError(
    'The source is ambiguous. Write it without comments between the parts of an expression.',
  );
}

/** The body of the function that the wrapper puts the plugin into. */
function innermostFunction(statement: Acorn.AnyNode | undefined): Acorn.BlockStatement | undefined {
  if (statement?.type !== 'ExpressionStatement') return undefined;
  const outer = statement.expression;
  if (outer.type !== 'FunctionExpression' || outer.body.body.length !== 3) return undefined;
  const inner = returned(outer.body.body[2]);
  if (inner?.type !== 'FunctionExpression' || inner.body.body.length !== 1) return undefined;
  const call = returned(inner.body.body[0]);
  if (call?.type !== 'CallExpression' || call.callee.type !== 'FunctionExpression') {
    return undefined;
  }
  return call.callee.body;
}

function returned(statement: Acorn.AnyNode | undefined): Acorn.Expression | undefined {
  return statement?.type === 'ReturnStatement' ? (statement.argument ?? undefined) : undefined;
}

/**
 * The text of these statements, made from the tree that was checked: what the source says between its tokens is not
 * in it, so the engine cannot read it in another way. The word `import` is nowhere in it, not even in a text or a
 * name, so no `import()` can be in it, however it is read.
 *
 * The tree changes: its names and texts get escapes.
 *
 * @throws SyntaxError if a pattern or a template has the word behind a backslash, so that it has no escape
 */
function printStatements(body: readonly Acorn.Node[], astring: typeof Astring): string {
  const program = { type: 'Program', body, sourceType: 'script' };
  walk(program as unknown as Acorn.Node, escapeWord);
  const text = astring.generate(program as unknown as Parameters<typeof astring.generate>[0]);
  if (text.includes(word)) throw new SyntaxError(`The word ${word} is not supported here.`);
  return text;
}

/** Prints a tree without positions and spelling. Equal trees have equal texts. */
function shapeOf(body: readonly Acorn.Node[]): string {
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
