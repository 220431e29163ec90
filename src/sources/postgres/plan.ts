import pg from 'pg';
import { SluiceError } from '../../domain/errors.ts';
import type { Column } from '../../domain/row-block.ts';
import { type DataInterval, toTimestamp } from '../../domain/time.ts';
import type { SourceRequest } from '../source.ts';
import { columnTypeOf, type DescribedColumn, sendExpression } from './column-types.ts';

/**
 * The SQL of one export. Tenant, interval and filters stand in it as literals. `copySql` sorts by
 * the interval column and then by the key, so that equal rows always come in the same order.
 */
export interface SelectPlan {
  readonly columns: readonly Column[];
  /** `COPY (SELECT …) TO STDOUT (FORMAT binary)`; its columns are `columns`, in their order. */
  copySql(range: DataInterval): string;
  /** One row, one column: how many rows `copySql` gives. */
  countSql(range: DataInterval): string;
}

/** Asks the server for the columns of a SELECT without running it. */
export type Describe = (selectSql: string) => Promise<readonly DescribedColumn[]>;

/** Makes the plan of a request. Throws SluiceError `query.*` or `source.*`. */
export type PlanSelect = (request: SourceRequest, describe: Describe) => Promise<SelectPlan>;

/** A plain relation to export; every name is an SQL identifier, not yet quoted. */
export interface ModelRelation {
  readonly relation: readonly string[];
  readonly tenantColumn: string;
  readonly intervalColumn: string;
  /** Makes a row unique; breaks ties of the interval column. */
  readonly keyColumns: readonly string[];
  /** What `include_events` and `exclude_events` are compared with; null where there is no such. */
  readonly eventColumn: string | null;
  readonly columns: readonly string[];
}

export const eventsRelation: ModelRelation = {
  relation: ['events'],
  tenantColumn: 'team_id',
  intervalColumn: 'inserted_at',
  keyColumns: ['uuid'],
  eventColumn: 'event',
  columns: [
    'uuid',
    'event',
    'properties',
    'distinct_id',
    'person_id',
    'person_properties',
    'elements_chain',
    'timestamp',
    'created_at',
    'inserted_at',
  ],
};

/** Plans the export of a relation's columns as they are. */
export function planRelation(model: ModelRelation): PlanSelect {
  return async (request, describe) => {
    if (request.dslQuery !== null) {
      throw new SluiceError('query.invalid', 'this source takes no query');
    }
    const from = model.relation.map(identifier).join('.');
    const described = await describe(
      `SELECT ${model.columns.map(identifier).join(', ')} FROM ${from}`,
    );
    const columns = described.map(({ name, typeOid, sourceType }) => {
      return { name, type: columnTypeOf(typeOid), sourceType };
    });
    const list = columns.map(({ name, type }) => sendExpression(identifier(name), type)).join(', ');
    const where = (range: DataInterval) => conditions(model, request, range).join(' AND ');
    const order = [model.intervalColumn, ...model.keyColumns].map(identifier).join(', ');
    return {
      columns,
      copySql: (range) =>
        `COPY (SELECT ${list} FROM ${from} WHERE ${where(range)} ORDER BY ${order}) TO STDOUT (FORMAT binary)`,
      countSql: (range) => `SELECT count(*) FROM ${from} WHERE ${where(range)}`,
    };
  };
}

function conditions(model: ModelRelation, request: SourceRequest, range: DataInterval): string[] {
  if (!Number.isSafeInteger(request.teamId)) throw new TypeError('teamId is not an integer');
  const at = identifier(model.intervalColumn);
  const all = [
    `${identifier(model.tenantColumn)} = ${request.teamId}`,
    `${at} >= ${timestampLiteral(range.start)}`,
    `${at} < ${timestampLiteral(range.end)}`,
  ];
  if (model.eventColumn === null) return all;
  const event = identifier(model.eventColumn);
  const { includeEvents, excludeEvents } = request;
  if (includeEvents?.length) all.push(`${event} = ANY (${textArray(includeEvents)})`);
  // A row without an event name is not one of the excluded.
  if (excludeEvents?.length) all.push(`(${event} = ANY (${textArray(excludeEvents)})) IS NOT TRUE`);
  return all;
}

/** An instant as a literal of the server, with microseconds. */
export function timestampLiteral(instant: number): string {
  return `'${toTimestamp(instant)}'::timestamptz`;
}

function textArray(values: readonly string[]): string {
  // PostgreSQL's text holds neither NUL nor half a surrogate pair: such a name matches no row. Sent
  // on, NUL would cut the statement short, and the half would turn into another character.
  const possible = values.filter((value) => !/[\0\p{Surrogate}]/u.test(value));
  return `ARRAY[${possible.map((value) => pg.escapeLiteral(value)).join(', ')}]::text[]`;
}

function identifier(name: string): string {
  return pg.escapeIdentifier(name);
}
