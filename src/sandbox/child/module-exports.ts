import type * as Acorn from 'acorn';
import type { SourceProblem } from './source-problem.ts';
import { boundNames } from './walk.ts';

interface ModuleText {
  readonly text: string;
  readonly isModule: boolean;
  /** The name of the object that the text puts its exports into. */
  readonly parameter: string;
  readonly problems: readonly SourceProblem[];
}

/**
 * A module as the body of a function: `export` becomes blanks, and the exported values are set at the end.
 * A text without `export` stays as it is.
 */
export function exportsAsValues(program: Acorn.Program, source: string): ModuleText {
  let parameter = '$exports';
  while (source.includes(parameter)) parameter += '$';
  const edit = { text: source, names: new Map<string, string>() };
  const problems: SourceProblem[] = [];
  for (const node of program.body) {
    const detail = rewrite(node, edit);
    if (detail) problems.push({ line: node.loc?.start.line ?? null, detail });
  }
  const isModule = program.body.some(({ type }) => /^Export/.test(type));
  const values = [...edit.names].map(
    ([exported, local]) => `${parameter}[${JSON.stringify(exported)}]=${local};`,
  );
  const text = isModule ? `${edit.text}\n;${values.join('')}` : edit.text;
  return { text, isModule, parameter, problems };
}

interface Edit {
  text: string;
  /** Exported name → the name inside. */
  readonly names: Map<string, string>;
}

/** @returns why it cannot be rewritten, or null */
function rewrite(node: Acorn.Statement | Acorn.ModuleDeclaration, edit: Edit): string | null {
  const blank = (start: number, end: number) => {
    const blanks = edit.text.slice(start, end).replaceAll(/[^\n\r\u2028\u2029]/g, ' ');
    edit.text = edit.text.slice(0, start) + blanks + edit.text.slice(end);
  };
  if (node.type === 'ExportDefaultDeclaration') {
    return 'export default is not supported. Export processEvent by its name.';
  }
  if (node.type !== 'ExportNamedDeclaration' || node.source) return null;
  const { declaration } = node;
  if (!declaration) {
    blank(node.start, node.end);
    for (const { local, exported } of node.specifiers)
      edit.names.set(nameOf(exported), nameOf(local));
    return null;
  }
  blank(node.start, declaration.start);
  const names =
    declaration.type === 'VariableDeclaration'
      ? declaration.declarations.flatMap(({ id }) => boundNames(id))
      : [declaration.id.name];
  for (const name of names) edit.names.set(name, name);
  return null;
}

function nameOf(node: Acorn.Identifier | Acorn.Literal): string {
  return node.type === 'Identifier' ? node.name : String(node.value);
}
