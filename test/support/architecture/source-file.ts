import { parseAst } from 'vitest/node';

/** One arrow of a file: what it imports, and which names of it. */
export interface Import {
  /** As written: `../domain/run.ts`, `pg`; null if it is computed and so cannot be checked. */
  readonly specifier: string | null;
  /** Names of imported values, `*` for a namespace or a dynamic import; types are not among them. */
  readonly names: readonly string[];
  /** True if nothing of it is left at run time. */
  readonly typeOnly: boolean;
  readonly line: number;
}

/** Something in a file's text that a rule speaks of, and where. */
export interface Mark {
  readonly kind: 'environment' | 'clock' | 'date' | 'any' | 'default-export';
  readonly line: number;
}

/** A parsed source file. */
export interface SourceFile {
  /** Below `src`, with slashes: `api/runs/routes.ts`. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  readonly marks: readonly Mark[];
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly [field: string]: unknown;
}

/**
 * Parses one file with the parser that Vitest brings (oxc): what is in comments and in strings does
 * not count, and imports of every form do.
 *
 * @throws Error if the text is not valid TypeScript
 */
export function parseSourceFile(path: string, text: string): SourceFile {
  const imports: Import[] = [];
  const marks: Mark[] = [];
  const program: unknown = parseAst(text, { lang: path.endsWith('.tsx') ? 'tsx' : 'ts' }, path);
  const lineOf = (node: Node) => text.slice(0, node.start).split('\n').length;
  walk(program, (node) => {
    const found = importOf(node);
    if (found) imports.push({ ...found, line: lineOf(node) });
    const kind = markOf(node);
    if (kind) marks.push({ kind, line: lineOf(node) });
  });
  return { path, lines: countLines(text), imports, marks };
}

export function countLines(text: string): number {
  return text.replace(/\n$/, '').split('\n').length;
}

function walk(value: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) walk(item, visit);
  } else if (isNode(value)) {
    visit(value);
    for (const field of Object.values(value)) walk(field, visit);
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value;
}

function importOf(node: Node): Omit<Import, 'line'> | null {
  switch (node.type) {
    case 'ImportDeclaration':
      return {
        specifier: textOf(node.source),
        names: valuesOf(node, 'importKind').map((part) => nameOf(part.imported) ?? '*'),
        typeOnly: isTypeOnly(node, 'importKind'),
      };
    case 'ExportNamedDeclaration':
      if (!isNode(node.source)) return null;
      return {
        specifier: textOf(node.source),
        names: valuesOf(node, 'exportKind').map((part) => nameOf(part.local) ?? '*'),
        typeOnly: isTypeOnly(node, 'exportKind'),
      };
    case 'ExportAllDeclaration':
      return { specifier: textOf(node.source), names: ['*'], typeOnly: node.exportKind === 'type' };
    case 'ImportExpression':
    case 'TSImportType':
      return {
        specifier: textOf(node.source ?? node.argument),
        names: ['*'],
        typeOnly: node.type === 'TSImportType',
      };
    case 'CallExpression': {
      if (!isNode(node.callee) || nameOf(node.callee) !== 'require') return null;
      const [first] = Array.isArray(node.arguments) ? node.arguments : [];
      return { specifier: textOf(first), names: ['*'], typeOnly: false };
    }
    default:
      return null;
  }
}

function markOf(node: Node): Mark['kind'] | null {
  switch (node.type) {
    case 'TSAnyKeyword':
      return 'any';
    case 'ExportDefaultDeclaration':
      return 'default-export';
    case 'ExportSpecifier':
      return nameOf(node.exported) === 'default' ? 'default-export' : null;
    case 'MemberExpression':
      return isMember(node, 'process', 'env') ? 'environment' : null;
    case 'VariableDeclarator':
      return takesApart(node, 'process', 'env') ? 'environment' : null;
    case 'ImportDeclaration': {
      const fromProcess = /^(node:)?process$/.test(textOf(node.source) ?? '');
      const takesEnv = partsOf(node).some((part) => nameOf(part.imported) === 'env');
      return fromProcess && takesEnv ? 'environment' : null;
    }
    case 'NewExpression':
      if (nameOf(node.callee) !== 'Date') return null;
      return hasArguments(node) ? 'date' : 'clock';
    case 'CallExpression':
      return readsClock(node) ? 'clock' : null;
    default:
      return null;
  }
}

function readsClock(call: Node): boolean {
  const callee = call.callee;
  if (nameOf(callee) === 'Date') return true;
  if (isMember(callee, 'Date', 'now') || isMember(callee, 'DateTime', 'now')) return true;
  const withoutTime = isMember(callee, 'DateTime', 'utc') || isMember(callee, 'DateTime', 'local');
  return withoutTime && !hasArguments(call);
}

/** `object.property`, and `globalThis.object.property` and `object['property']` too. */
function isMember(node: unknown, object: string, property: string): boolean {
  if (!isNode(node) || node.type !== 'MemberExpression') return false;
  if ((nameOf(node.property) ?? textOf(node.property)) !== property) return false;
  if (nameOf(node.object) === object) return true;
  return isNode(node.object) && nameOf(node.object.property) === object;
}

function takesApart(declarator: Node, object: string, property: string): boolean {
  if (nameOf(declarator.init) !== object || !isNode(declarator.id)) return false;
  const properties = Array.isArray(declarator.id.properties) ? declarator.id.properties : [];
  return properties.some((part) => isNode(part) && nameOf(part.key) === property);
}

function partsOf(node: Node): readonly Node[] {
  return Array.isArray(node.specifiers) ? node.specifiers.filter(isNode) : [];
}

function valuesOf(node: Node, kind: 'importKind' | 'exportKind'): readonly Node[] {
  return partsOf(node).filter((part) => part[kind] !== 'type');
}

function isTypeOnly(node: Node, kind: 'importKind' | 'exportKind'): boolean {
  if (node[kind] === 'type') return true;
  return partsOf(node).length > 0 && valuesOf(node, kind).length === 0;
}

function hasArguments(call: Node): boolean {
  return Array.isArray(call.arguments) && call.arguments.length > 0;
}

function nameOf(node: unknown): string | null {
  if (!isNode(node)) return null;
  if (node.type === 'Identifier') return String(node.name);
  return node.type === 'Literal' ? textOf(node) : null;
}

/** The text of a literal that has no computed part. */
function textOf(node: unknown): string | null {
  if (!isNode(node)) return null;
  if (node.type === 'TSLiteralType') return textOf(node.literal);
  if (node.type === 'TemplateLiteral' && Array.isArray(node.quasis) && node.quasis.length === 1) {
    return String(node.quasis[0]?.value?.cooked);
  }
  return typeof node.value === 'string' ? node.value : null;
}
