import type * as Acorn from 'acorn';
import type { SourceProblem } from './source-problem.ts';
import { walk } from './walk.ts';

/** Names that other hosts of plugins call. Names that no host calls may be exported, say for a plugin's tests. */
const unsupportedExports = new Set([
  ...['onEvent', 'onSnapshot', 'onAction', 'composeWebhook', 'exportEvents', 'processEventBatch'],
  ...['runEveryMinute', 'runEveryHour', 'runEveryDay', 'jobs', 'scheduledTasks', 'handleAlert'],
  ...['getSettings', 'metrics', 'onRequest', 'modifyEvent', 'processSnapshot'],
]);

const metaFields = new Set(['config', 'global']);
/** Hooks that get `meta`, and as which of their parameters. */
const hooks = new Map([
  ['processEvent', 1],
  ['setupPlugin', 0],
  ['teardownPlugin', 0],
]);

export function describeUnsupportedExport(name: string): string | null {
  if (!unsupportedExports.has(name)) return null;
  return `The export ${name} is not supported. Export processEvent, setupPlugin and teardownPlugin.`;
}

export function findUnsupported(program: Acorn.Program): SourceProblem[] {
  const problems: SourceProblem[] = [];
  walk(program, (node) => {
    const at = (detail: string) => problems.push({ line: node.loc?.start.line ?? null, detail });
    const imported = describeImport(node);
    if (imported) at(imported);
    for (const [name, hook] of hooksOf(node)) {
      for (const field of fieldsOf(hook, hooks.get(name) ?? 0)) {
        if (!metaFields.has(field)) {
          at(`meta.${field} is not supported. Plugins have meta.config and meta.global.`);
        }
      }
    }
  });
  return problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
}

/** Names that other hosts' modules export and a plugin has without an import. */
const importedGlobals = new Set(['URL', 'URLSearchParams', 'atob', 'btoa', 'queueMicrotask']);

function describeImport(node: Acorn.AnyNode): string | null {
  const refuse = (what: string) =>
    `${what} is not supported. A plugin is one file and imports nothing.`;
  switch (node.type) {
    case 'ImportDeclaration':
      return refuse(`The import of ${textOf(node.source)}`) + describeGlobals(node);
    case 'ExportAllDeclaration':
      return refuse(`The import of ${textOf(node.source)}`);
    case 'ExportNamedDeclaration':
      return node.source ? refuse(`The import of ${textOf(node.source)}`) : null;
    case 'ImportExpression':
      return refuse(`import(${textOf(node.source)})`);
    case 'MetaProperty':
      return node.meta.name === 'import' ? refuse('import.meta') : null;
    case 'CallExpression':
      return node.callee.type === 'Identifier' && node.callee.name === 'require'
        ? refuse(`require(${textOf(node.arguments[0])})`)
        : null;
    default:
      return null;
  }
}

function describeGlobals({ specifiers }: Acorn.ImportDeclaration): string {
  const names = specifiers.map(({ local }) => local.name);
  const areGlobal = names.length > 0 && names.every((name) => importedGlobals.has(name));
  const are = names.length === 1 ? 'is a global' : 'are globals';
  return areGlobal ? ` Remove this line: ${names.join(' and ')} ${are} here.` : '';
}

function textOf(node: Acorn.AnyNode | undefined): string {
  return node?.type === 'Literal' ? JSON.stringify(node.value) : '…';
}

type Hook = readonly [name: string, hook: Acorn.Function];

/** Declared, assigned, or a member of an object. */
function hooksOf(node: Acorn.AnyNode): Hook[] {
  switch (node.type) {
    case 'FunctionDeclaration':
      return hookOf(node.id?.name, node);
    case 'VariableDeclarator':
      return node.id.type === 'Identifier' ? hookOf(node.id.name, node.init) : [];
    case 'AssignmentExpression':
      return node.left.type === 'MemberExpression' && node.left.property.type === 'Identifier'
        ? hookOf(node.left.property.name, node.right)
        : [];
    case 'Property':
      return node.key.type === 'Identifier' ? hookOf(node.key.name, node.value) : [];
    default:
      return [];
  }
}

function hookOf(name: string | undefined, value: Acorn.AnyNode | null | undefined): Hook[] {
  if (!name || !hooks.has(name)) return [];
  const isFunction =
    value?.type === 'FunctionDeclaration' ||
    value?.type === 'FunctionExpression' ||
    value?.type === 'ArrowFunctionExpression';
  return isFunction ? [[name, value]] : [];
}

function fieldsOf(hook: Acorn.Function, position: number): Set<string> {
  const fields = new Set<string>();
  const given = hook.params[position];
  const meta = given?.type === 'AssignmentPattern' ? given.left : given;
  if (meta?.type === 'ObjectPattern') addPattern(fields, meta);
  if (meta?.type !== 'Identifier') return fields;
  const isMeta = (node: Acorn.AnyNode | null | undefined) =>
    node?.type === 'Identifier' && node.name === meta.name;
  walk(hook.body, (node) => {
    if (node.type === 'MemberExpression' && isMeta(node.object)) {
      if (!node.computed && node.property.type === 'Identifier') fields.add(node.property.name);
    } else if (node.type === 'VariableDeclarator' && isMeta(node.init)) {
      if (node.id.type === 'ObjectPattern') addPattern(fields, node.id);
    }
  });
  return fields;
}

function addPattern(fields: Set<string>, pattern: Acorn.ObjectPattern): void {
  for (const property of pattern.properties) {
    if (property.type === 'Property' && property.key.type === 'Identifier' && !property.computed) {
      fields.add(property.key.name);
    }
  }
}
