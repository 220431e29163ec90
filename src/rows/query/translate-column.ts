import type { Model } from '../../foundation/domain/model.ts';
import type { Expression } from './expression.ts';
import { namesIn, onlyFields, type TaggedNode } from './nodes.ts';
import { RefusedPart } from './problem.ts';

export interface Scope {
  readonly model: Model;
  /** The name that may precede a column: the alias in FROM, else the model's name. */
  readonly qualifier: string;
}

const systemColumns: ReadonlySet<string> = new Set(
  'ctid tableoid xmin xmax cmin cmax oid'.split(' '),
);

export function translateColumn(node: TaggedNode, offset: number, scope: Scope): Expression {
  onlyFields(node, ['fields'], offset);
  const names = namesIn(node.fields.fields);
  if (names.includes(null)) {
    const message = 'Use * only as an item of the SELECT list, not in an expression.';
    throw new RefusedPart('*', offset, message);
  }
  for (const part of names) checkName(part ?? '', offset);
  const [name, ...path] = withoutQualifier(
    names.filter((part) => part !== null),
    scope,
  );
  const column = scope.model.columns.find((candidate) => candidate.name === name);
  if (!column || name === undefined) throw refuseColumn(name ?? scope.qualifier, offset, scope);
  if (path.length === 0) return { kind: 'column', name };
  if (!column.json) {
    const message = `The column ${name} is not JSON, so it has no keys.`;
    throw new RefusedPart(`${name}.${path.join('.')}`, offset, message);
  }
  return { kind: 'json', column: name, path };
}

/** Files and the normalized text contain names, and would lose a control character. */
export function checkName(name: string, offset: number): void {
  if (!/\p{Cc}/u.test(name)) return;
  throw new RefusedPart('control character', offset, 'Remove the control character from the name.');
}

export function isStar(fields: unknown, scope: Scope): boolean {
  const names = namesIn(fields);
  if (names.at(-1) !== null) return false;
  return names.length === 1 || (names.length === 2 && names[0] === scope.qualifier);
}

/** A column's own name wins over the qualifier: `properties.a` of a model called properties. */
function withoutQualifier(names: readonly string[], scope: Scope): readonly string[] {
  const isColumn = scope.model.columns.some(({ name }) => name === names[0]);
  return !isColumn && names[0] === scope.qualifier ? names.slice(1) : names;
}

/** If PostgreSQL would fold its case or could not read it. */
const asWritten = (name: string): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;

function refuseColumn(name: string, offset: number, { model, qualifier }: Scope): RefusedPart {
  if (systemColumns.has(name)) {
    return new RefusedPart(`system column ${name}`, offset, 'is not supported.');
  }
  if (name === qualifier || name === model.name) {
    const message = 'is not supported: name the columns.';
    return new RefusedPart(`whole-row reference ${name}`, offset, message);
  }
  const names = model.columns.map((column) => asWritten(column.name)).join(', ');
  const message = `${model.name} has only these columns: ${names}.`;
  return new RefusedPart(`column "${name}"`, offset, message);
}

export interface Translate {
  readonly scope: Scope;
  readonly offset: number;
  readonly part: (node: unknown) => Expression;
}
