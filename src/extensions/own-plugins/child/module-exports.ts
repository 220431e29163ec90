import type * as Acorn from 'acorn';
import type { SourceProblem } from './source-problem.ts';
import { boundNames } from './walk.ts';

interface ModuleBody {
  readonly statements: readonly Acorn.Node[];
  readonly isModule: boolean;
  /** The name of the object that the statements put the exports into. */
  readonly parameter: string;
  readonly problems: readonly SourceProblem[];
}

/**
 * A module as the statements of a function: `export` goes, and the exported values are set at the end. Those of a
 * program without `export` stay as they are.
 */
export function exportsAsValues(program: Acorn.Program, source: string): ModuleBody {
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

/**
 * @param names gets exported name → the name inside
 * @returns the statements that are left, or why it cannot be rewritten
 */
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

/** `parameter["exported"] = local;` */
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
