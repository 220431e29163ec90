import type * as Acorn from 'acorn';
import type * as Astring from 'astring';
import type * as Sucrase from 'sucrase';
import { findUnsupported } from './find-unsupported.ts';
import type { SourceProblem } from './source-problem.ts';
import { boundNames, walk } from './walk.ts';

/** In the sandbox's process, before any of it runs: to parse hostile text may take long. */

/** Their files are read before the process loses its access to files. */
export interface Parsers {
  readonly acorn: typeof Acorn;
  readonly astring: typeof Astring;
  readonly sucrase: () => typeof Sucrase;
}

export interface ReadSource {
  /** A script, whose one value is the plugin's wrapper. It is printed from the tree that was checked. */
  readonly script: string;
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

function parseAny(source: string, { acorn, sucrase }: Parsers): Parsed | SourceProblem {
  const parse = (text: string, sourceType: 'module' | 'script'): Parsed => {
    const allowReturnOutsideFunction = sourceType === 'script';
    const options = { ...language, sourceType, locations: true, allowReturnOutsideFunction };
    return { program: acorn.parse(text, options), text };
  };
  const asModule = attempt(() => parse(source, 'module'));
  if ('value' in asModule) return asModule.value;
  const asScript = attempt(() => parse(source, 'script'));
  if ('value' in asScript) return asScript.value;
  const stripped = attempt(() => {
    const options = { transforms: ['typescript' as const], disableESTransforms: true };
    return parse(sucrase().transform(source, options).code, 'module');
  });
  if ('value' in stripped) return stripped.value;
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
 * Two parsers may read a source differently, so the engine gets the checked tree, printed and parsed again.
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
 * Made from the checked tree: what is between its tokens is not in it. The word `import` is nowhere in it, so no
 * `import()` can be, however it is read. Names and texts of the tree get escapes.
 * @throws SyntaxError if a pattern or a template has the word behind a backslash, so that it has no escape
 */
function printStatements(body: readonly Acorn.Node[], astring: typeof Astring): string {
  const program = { type: 'Program', body, sourceType: 'script' };
  walk(program as unknown as Acorn.Node, escapeWord);
  const text = astring.generate(program as unknown as Parameters<typeof astring.generate>[0]);
  if (text.includes(word)) throw new SyntaxError(`The word ${word} is not supported here.`);
  return text;
}

/** Without positions and spelling. Equal trees have equal texts. */
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

/** `export` goes, and the values are set at the end, in the object `parameter`; without it nothing changes. */
function exportsAsValues(program: Acorn.Program, source: string) {
  let parameter = '$exports';
  while (source.includes(parameter)) parameter += '$';
  const names = new Map<string, string>();
  const problems: SourceProblem[] = [];
  const statements = program.body.flatMap((node) => {
    const replaced = withoutExport(node, names);
    if (typeof replaced !== 'string') return replaced;
    problems.push({ line: node.loc?.start.line ?? null, detail: replaced });
    return [];
  });
  const isModule = program.body.some(({ type }) => /^Export/.test(type));
  const values = [...names].map(([exported, local]) => setExport(parameter, exported, local));
  return { statements: [...statements, ...values], isModule, parameter, problems };
}

/** Or why it cannot be rewritten. @param names gets exported name → the name inside */
function withoutExport(
  node: Acorn.Statement | Acorn.ModuleDeclaration,
  names: Map<string, string>,
): readonly Acorn.Node[] | string {
  if (node.type === 'ExportDefaultDeclaration') {
    return 'export default is not supported. Export processEvent by its name.';
  }
  if (node.type !== 'ExportNamedDeclaration' || node.source) return [node];
  const { declaration } = node;
  if (!declaration) {
    for (const { local, exported } of node.specifiers) names.set(nameOf(exported), nameOf(local));
    return [];
  }
  const bound =
    declaration.type === 'VariableDeclaration'
      ? declaration.declarations.flatMap(({ id }) => boundNames(id))
      : [declaration.id.name];
  for (const name of bound) names.set(name, name);
  return [declaration];
}

function nameOf(node: Acorn.Identifier | Acorn.Literal): string {
  return node.type === 'Identifier' ? node.name : String(node.value);
}

function setExport(parameter: string, exported: string, local: string): Acorn.Node {
  const at = { start: 0, end: 0 };
  const name = (text: string): Acorn.Identifier => ({ ...at, type: 'Identifier', name: text });
  const key = { ...at, type: 'Literal', value: exported, raw: JSON.stringify(exported) } as const;
  const left: Acorn.MemberExpression = {
    ...{ ...at, type: 'MemberExpression', object: name(parameter), property: key },
    ...{ computed: true, optional: false },
  };
  const expression: Acorn.AssignmentExpression = {
    ...{ ...at, type: 'AssignmentExpression', operator: '=', left, right: name(local) },
  };
  return { ...at, type: 'ExpressionStatement', expression } as Acorn.ExpressionStatement;
}
