import { parseAst } from 'vitest/node';

/**
 * A place in a module of the store that has the text of a statement: the first argument of `.query(`, `prepared(`,
 * `plannedOnce(` or of a maker of functions, and what a function of the module is given that only passes it on.
 */
export interface StatementPlace {
  /** `runs/claims.ts claimFree`: the module, and the function or constant that the place is in. */
  readonly name: string;
  readonly start: number;
  readonly end: number;
  /** The constants of the function that the text is made of; null if the text depends on what a caller gives. */
  readonly constants: readonly string[] | null;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

/** They make a function of a statement (`database/statement.ts`). */
const makers = [
  ...['command', 'queryRows', 'queryFirst', 'queryOne', 'queryValues', 'querySet', 'queryValue'],
  ...['queryNumber', 'queryFlag', 'queryCount', 'queryAny', 'queryPage', 'queryAs', 'queryWork'],
];

/** @param path of the module, from the folder of the store */
export function findStatements(path: string, text: string): readonly StatementPlace[] {
  const program = parseAst(text, { lang: 'ts' }) as unknown as { readonly body: readonly Node[] };
  const units = program.body.flatMap(unitsOf);
  const takers = new Map(['prepared', 'plannedOnce', ...makers].map((name) => [name, 0]));
  for (const { name, node } of units) {
    const passed = textsIn(node, takers).map((given) => parametersOf(node).indexOf(nameOf(given)));
    for (const index of passed) if (index >= 0) takers.set(name, index);
  }
  return units.flatMap(({ name, node }) => {
    const scope = scopeOf(node);
    const passed = takers.has(name) ? parametersOf(node) : [];
    return textsIn(node, takers)
      .filter((given) => !passed.includes(nameOf(given)))
      .map((given) => ({
        name: `${path} ${name}`,
        start: given.start,
        end: given.end,
        constants: constantsOf(given, scope, text),
      }));
  });
}

/**
 * The module with each text recorded when it is used (`recordStatement(place, text)`). Texts that are constant are also
 * recorded when the module is loaded.
 */
export function recordStatements(path: string, text: string): string {
  const places = findStatements(path, text);
  const record = (index: number, expression: string) =>
    `globalThis.recordStatement(${JSON.stringify(path)}, ${index}, ${expression})`;
  const constant = places.flatMap(({ constants, start, end }, index) =>
    constants === null
      ? []
      : [`(() => { ${constants.join(' ')} ${record(index, text.slice(start, end))}; })();`],
  );
  const edits = places
    .flatMap(({ start, end }, index) => [
      { at: start, text: record(index, '(').slice(0, -1) },
      { at: end, text: '))' },
    ])
    .toSorted((a, b) => b.at - a.at);
  const edited = edits.reduce(
    (whole, edit) => `${whole.slice(0, edit.at)}${edit.text}${whole.slice(edit.at)}`,
    text,
  );
  return `${edited}\n${constant.join('\n')}\n`;
}

/** What a statement of a module declares, by name. */
function unitsOf(statement: Node): { readonly name: string; readonly node: Node }[] {
  const declaration = isNode(statement.declaration) ? statement.declaration : statement;
  const declarations = nodesIn(declaration.declarations);
  if (declarations.length === 0) return [{ name: nameOf(declaration.id), node: declaration }];
  return declarations.map((node) => ({ name: nameOf(node.id), node }));
}

/** Names of the parameters of a function; null for a pattern, or a parameter with a default. */
function parametersOf(unit: Node): readonly (string | null)[] {
  const made = isNode(unit.init) ? unit.init : unit;
  return nodesIn(made.params).map((parameter) => nameOf(parameter) || null);
}

/** @param takers functions that take a text, and which of their arguments it is */
function textsIn(unit: Node, takers: ReadonlyMap<string, number>): Node[] {
  const found: Node[] = [];
  walk(unit, (node) => {
    if (node.type !== 'CallExpression' || !isNode(node.callee)) return;
    const { callee } = node;
    const index = nameOf(callee.property) === 'query' ? 0 : takers.get(nameOf(callee));
    const given = index === undefined ? undefined : nodesIn(node.arguments)[index];
    if (given) found.push(given);
  });
  return found;
}

/** Names that a function or constant binds inside, each with what a constant is; null: it is no constant, or there are two. */
type Scope = ReadonlyMap<string, Node | null>;

function scopeOf(unit: Node): Scope {
  const scope = new Map<string, Node | null>();
  const bind = (name: string, init: Node | null) => scope.set(name, scope.has(name) ? null : init);
  walk(unit, (node) => {
    if (node.type === 'VariableDeclarator' && node !== unit) {
      const isPlain = isNode(node.id) && node.id.type === 'Identifier' && isNode(node.init);
      for (const name of namesOf(node.id)) bind(name, isPlain ? (node.init as Node) : null);
    }
    for (const parameter of nodesIn(node.params)) {
      for (const name of namesOf(parameter)) bind(name, null);
    }
    if (node.type === 'FunctionDeclaration' && node !== unit) bind(nameOf(node.id), null);
  });
  return scope;
}

/** Declarations of the constants that an expression needs, in order; null if one of its names is no constant. */
function constantsOf(expression: Node, scope: Scope, text: string): readonly string[] | null {
  const needed = new Set<string>();
  const isConstant = (node: Node): boolean => {
    const inner = scopeOf(node);
    let isPlain = true;
    // What is made by `new` may change before the statement is sent.
    walk(node, ({ type }) => {
      if (/^(Await|This|New)Expression$/.test(type)) isPlain = false;
    });
    const outer = [...usedIn(node)].filter((name) => scope.has(name) && !inner.has(name));
    return (
      isPlain &&
      outer.every((name) => {
        const init = scope.get(name);
        if (!init || !isConstant(init)) return false;
        needed.add(`const ${name} = ${text.slice(init.start, init.end)};`);
        return true;
      })
    );
  };
  return isConstant(expression) ? [...needed] : null;
}

/** Names of what an expression reads; not of properties and types. */
function usedIn(value: unknown, used = new Set<string>()): Set<string> {
  if (Array.isArray(value)) for (const item of value) usedIn(item, used);
  if (!isNode(value)) return used;
  if (value.type === 'Identifier') return used.add(nameOf(value));
  for (const [field, child] of Object.entries(value)) {
    const isName = (field === 'property' || field === 'key') && value.computed !== true;
    if (!isName && !field.startsWith('type') && field !== 'returnType') usedIn(child, used);
  }
  return used;
}

/** Names that a pattern binds. */
function namesOf(pattern: unknown): string[] {
  if (!isNode(pattern)) return [];
  if (pattern.type === 'Identifier') return [nameOf(pattern)];
  const parts = [pattern.argument, pattern.left, pattern.value];
  return [...nodesIn(pattern.properties), ...nodesIn(pattern.elements), ...parts].flatMap(namesOf);
}

function walk(value: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(value)) for (const item of value) walk(item, visit);
  if (!isNode(value)) return;
  visit(value);
  for (const field of Object.values(value)) walk(field, visit);
}

const nodesIn = (value: unknown): Node[] => (Array.isArray(value) ? value.filter(isNode) : []);

const nameOf = (node: unknown): string =>
  isNode(node) && typeof node.name === 'string' ? node.name : '';

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value;
}
