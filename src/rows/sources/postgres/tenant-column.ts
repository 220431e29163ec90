import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { quoteText } from '../../query/print.ts';
import type { DescribedColumn } from './column-types.ts';
import { query } from './connection.ts';
import type { ReadRelation } from './hidden-rows.ts';
import { oidOf } from './replaced-tables.ts';

export interface ModelFinding {
  /** `error`: exports of the model fail. `warning`: they are slow, or may miss rows. */
  readonly severity: 'error' | 'warning';
  readonly detail: string;
}

interface TenantType {
  readonly values: string;
  readonly example: string;
  accepts(tenantKey: string): boolean;
}

const integer = (values: string, bits: number): TenantType => ({
  values,
  example: '1',
  accepts: (key) => /^[+-]?\d+$/.test(key) && BigInt.asIntN(bits, BigInt(key)) === BigInt(key),
});
const text: TenantType = { values: 'text', example: '1', accepts: () => true };

/** By the id of the type. Equal values have the same `tenantIdentityOf`, which other types do not promise. */
const tenantTypes: ReadonlyMap<number, TenantType> = new Map([
  [21, integer('a whole number', 16)],
  [23, integer('a whole number', 32)],
  [20, integer('a whole number', 64)],
  [25, text],
  [1042, text],
  [1043, text],
  [
    2950,
    {
      values: 'a UUID',
      example: '00000000-0000-0000-0000-000000000000',
      accepts: (key) => /^\{?[0-9a-f]{4}(?:-?[0-9a-f]{4}){7}\}?$/i.test(key),
    },
  ],
]);

/** In other types than these the keys of two projects can be equal, and each would get the rows of the other. */
export function refuseTenantColumn(name: string, described: DescribedColumn | undefined): void {
  if (!described) return;
  const { sourceType: typeName, typeOid: baseType } = described;
  const column = { name, typeName, baseType, looseCollation: null };
  const { planned, finding } = judgeTenantColumn(column, []);
  if (planned === null && finding) throw new SluiceError('source.model_invalid', finding.detail);
}

/** SQL of the name of a column's collation, if that is not deterministic: `a` is its row of `pg_attribute`. */
export const looseNameSql = `(SELECT pg_catalog.format('%I.%I', n.nspname, l.collname) FROM pg_catalog.pg_collation AS l
     JOIN pg_catalog.pg_namespace AS n ON n.oid = l.collnamespace WHERE l.oid = a.attcollation AND NOT l.collisdeterministic)`;

export const looseCollationSql = ({ name, tenantColumn }: ReadRelation): string =>
  `(SELECT ${looseNameSql} FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = ${oidOf(name)} AND a.attname = ${quoteText(tenantColumn)})`;

/** The server does not describe it; null if it keeps different keys apart. */
export async function findLooseTenant(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  const sql = `SELECT ${looseCollationSql(relation)} AS collation`;
  const [row] = await query<{ collation: string | null }>(client, sql, signal);
  const collation = row?.collation ?? null;
  if (collation === null) return null;
  return new SluiceError('source.model_invalid', describeLoose(relation.tenantColumn, collation));
}

const describeLoose = (name: string, collation: string): string =>
  `${name} has the collation ${collation}, which is not deterministic: it takes different texts for the same, so the keys of two projects can be equal. Name a column with a deterministic collation, or a view that has one, such as ${name} COLLATE "C" AS ${name}.`;

const namedKeys = 5;

/**
 * @param column its id is of the type below domains, its collation null if it is deterministic
 * @returns a tenant key that a statement can be planned for; null: exports of the model would fail
 */
export function judgeTenantColumn(
  column: {
    readonly name: string;
    readonly typeName: string;
    readonly baseType: number;
    readonly looseCollation: string | null;
  },
  tenantKeys: readonly string[],
): { readonly planned: string | null; readonly finding: ModelFinding | null } {
  const { name, typeName } = column;
  const type = tenantTypes.get(column.baseType);
  if (!type) {
    const detail = `${name} is ${typeName}. A tenant column must be text, uuid or an integer type. Name another column, or a view that has one.`;
    return { planned: null, finding: { severity: 'error', detail } };
  }
  if (column.looseCollation !== null) {
    const detail = describeLoose(name, column.looseCollation);
    return { planned: null, finding: { severity: 'error', detail } };
  }
  const planned = tenantKeys.find((key) => type.accepts(key));
  const refused = tenantKeys.filter((key) => !type.accepts(key));
  if (refused.length === 0) return { planned: planned ?? type.example, finding: null };
  const named = refused.slice(0, namedKeys).map((key) => JSON.stringify(key));
  const more = refused.length > named.length ? ` and ${refused.length - named.length} more` : '';
  const detail = `${name} is ${typeName}, so the tenant_key of a project must be ${type.values}. These are not: ${named.join(', ')}${more}. Exports of this model fail in these projects. Create each with the tenant_key that ${name} has for it.`;
  return {
    planned: planned ?? type.example,
    finding: { severity: planned === undefined ? 'error' : 'warning', detail },
  };
}
