/**
 * Reads the source of a plugin in the sandbox's process, before any of it runs: to parse hostile text
 * may take long, and must not hold up the service.
 */
import type * as Acorn from 'acorn';
import type * as Sucrase from 'sucrase';
import { findUnsupported } from './find-unsupported.ts';
import { exportsAsValues } from './module-exports.ts';
import type { SourceProblem } from './source-problem.ts';

/** The libraries; their files are read before the process loses its access to files. */
export interface Parsers {
  readonly acorn: typeof Acorn;
  readonly sucrase: () => typeof Sucrase;
}

export interface ReadSource {
  /** A script, whose one value is the plugin's wrapper; lines are those of the source. */
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
  const named = exportsAsValues(program, text);
  const { isModule } = named;
  problems.push(...named.problems);
  const { script, bodyStart, bodyEnd } = wrap(named.text, globalNames, named.parameter);
  problems.push(...checkScript(script, bodyStart, bodyEnd, parsers.acorn));
  return { script, isModule, problems };
}

type Parsed = { readonly program: Acorn.Program; readonly text: string };

/** As a module, as a script, and at last as TypeScript. */
function parseAny(source: string, { acorn, sucrase }: Parsers): Parsed | SourceProblem {
  const asModule = attempt(() =>
    acorn.parse(source, { ...language, sourceType: 'module', locations: true }),
  );
  if ('program' in asModule) return { program: asModule.program, text: source };
  const asScript = attempt(() =>
    acorn.parse(source, {
      ...language,
      sourceType: 'script',
      locations: true,
      allowReturnOutsideFunction: true,
    }),
  );
  if ('program' in asScript) return { program: asScript.program, text: source };
  let text = '';
  const stripped = attempt(() => {
    const { code } = sucrase().transform(source, {
      transforms: ['typescript'],
      disableESTransforms: true,
    });
    text = code;
    return acorn.parse(code, { ...language, sourceType: 'module', locations: true });
  });
  if ('program' in stripped) return { program: stripped.program, text };
  // Plain JavaScript with a mistake is best described by the parser that understood most of it.
  return stripped.at >= asModule.at ? stripped.problem : asModule.problem;
}

type Attempt =
  | { readonly program: Acorn.Program }
  | { readonly problem: SourceProblem; readonly at: number };

function attempt(parse: () => Acorn.Program): Attempt {
  try {
    return { program: parse() };
  } catch (error) {
    const { loc, message } = error as { loc?: { line: number; column: number }; message?: string };
    const detail = String(message ?? 'The source cannot be read.')
      .replace(/^Error transforming \S*: /, '')
      .replace(/ ?\(\d+:\d+\)$/, '');
    const line = loc?.line ?? null;
    return { problem: { line, detail }, at: (line ?? 0) * 100_000 + (loc?.column ?? 0) };
  }
}

/** All on the first line, so that lines keep their numbers. */
function wrap(text: string, globalNames: readonly string[], parameter: string) {
  const head = `(function(){"use strict";const {${globalNames.join(',')}}=arguments[0];return function(module,exports,${parameter}){return function(){`;
  const tail = '\n}();}})';
  const script = head + text + tail;
  return { script, bodyStart: head.length, bodyEnd: head.length + text.length };
}

/**
 * The last word on what the engine will run: the script as a whole, parsed as the engine parses it.
 * (A comment of HTML is one in a script only, so the same text may differ as a module.) The plugin is
 * one function inside the wrapper, and no `import()` is anywhere.
 */
function checkScript(
  script: string,
  bodyStart: number,
  bodyEnd: number,
  acorn: typeof Acorn,
): SourceProblem[] {
  const read = attempt(() =>
    acorn.parse(script, { ...language, sourceType: 'script', locations: true }),
  );
  if (!('program' in read)) return [read.problem];
  const [statement, ...others] = read.program.body;
  const innermost = [statement].map(innermostFunction)[0];
  const isWhole =
    others.length === 0 &&
    innermost !== undefined &&
    innermost.start + 1 === bodyStart &&
    innermost.end > bodyEnd;
  const problems = findUnsupported(read.program).filter(({ detail }) => detail.includes('import'));
  return isWhole ? problems : [{ line: null, detail: 'The braces do not match.' }, ...problems];
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
