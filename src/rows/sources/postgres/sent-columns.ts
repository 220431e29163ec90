import type { Model } from '../../../foundation/domain/model.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';
import type { ParsedQuery } from '../../query/parse-query.ts';
import { outputsOf, type SentColumn } from '../../query/select.ts';
import type { Projection, SourceRequest } from '../source.ts';
import { columnTypeOf, type DescribedColumn, isNested } from './column-types.ts';
import { type WiderType, writtenType } from './schema-changes.ts';

/** A request whose query was read. */
export interface ReadRequest {
  readonly request: SourceRequest;
  readonly model: Model;
  /** Of all columns, if the request is of `columns`. */
  readonly query: ParsedQuery | null;
  readonly projection: Projection | null;
}

/** Keys of the model that the rows do not show, and that are sent beside them. */
export const hiddenKeysOf = ({ request, model, query }: ReadRequest): readonly string[] =>
  request.select === 'keys'
    ? []
    : model.keyColumns.filter((key) => outputIndexOf(key, model, query) < 0);

/** The index of the output that is this key, under any name; -1 if there is none. */
export function outputIndexOf(key: string, model: Model, query: ParsedQuery | null): number {
  const isPlain = model.columns.some((column) => column.name === key && !column.expression);
  if (!isPlain) return -1;
  return outputsOf(model, query).findIndex(
    ({ expression }) => expression.kind === 'column' && expression.name === key,
  );
}

/** The server's answer about the columns of `describeSql`. */
interface Described {
  readonly given: readonly DescribedColumn[];
  readonly wider: ReadonlyMap<string, WiderType>;
}

/** Each described column as it is sent: those of the rows, then hidden keys, the interval column if there is one, and the tenant's. */
export interface SentColumns {
  readonly all: readonly (Column & SentColumn)[];
  /** The number of them that are columns of the rows. */
  readonly width: number;
}

export function sentColumns(read: ReadRequest, { given, wider }: Described): SentColumns {
  const { request, model, query } = read;
  const outputs = outputsOf(model, query);
  const nameAt = (index: number): string | null => {
    const expression = outputs[index]?.expression;
    return expression?.kind === 'column' ? expression.name : null;
  };
  const described = given.map((column, index) => {
    const name = nameAt(index);
    if (name === null) return column;
    const sourceType = writtenType(model, name, column.sourceType);
    return { ...column, sourceType, ...wider.get(name) };
  });
  const sendsRows = (request.select ?? 'rows') === 'rows';
  const sendsText = request.nested === 'text' && sendsRows;
  /** Keys come as they always have: their digests are kept. */
  const isKey = (index: number) => model.keyColumns.includes(nameAt(index) ?? '');
  const all = described.map((column, index): Column & SentColumn => {
    const { name, typeOid, sourceType } = column;
    if (sendsText && isNested(column) && index < outputs.length && !isKey(index)) {
      return { name, type: 'text', sourceType, sentAs: 'text' };
    }
    const type = columnTypeOf(typeOid);
    const castTo = wider.get(nameAt(index) ?? '')?.sql;
    return { name, type, sourceType, ...(castTo !== undefined && { castTo }) };
  });
  return { all, width: outputs.length };
}
