import type { Model } from '../../../foundation/domain/model.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';
import type { ParsedQuery } from '../../query/parse-query.ts';
import { outputsOf, type SentColumn } from '../../query/select.ts';
import type { Projection, SourceRequest } from '../source.ts';
import { columnTypeOf, type DescribedColumn, isNested } from './column-types.ts';
import { writtenType } from './schema-changes.ts';

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

/** Under any name; -1 if there is none. */
export function outputIndexOf(key: string, model: Model, query: ParsedQuery | null): number {
  const isPlain = model.columns.some((column) => column.name === key && !column.expression);
  if (!isPlain) return -1;
  return outputsOf(model, query).findIndex(
    ({ expression }) => expression.kind === 'column' && expression.name === key,
  );
}

/** Each described column as it is sent: those of the rows, then hidden keys, the interval column if there is one, and the tenant's. */
export interface SentColumns {
  readonly all: readonly (Column & SentColumn)[];
  readonly width: number;
}

export function sentColumns(read: ReadRequest, given: readonly DescribedColumn[]): SentColumns {
  const { request, model, query } = read;
  const outputs = outputsOf(model, query);
  const sendsText = request.nested === 'text' && (request.select ?? 'rows') === 'rows';
  const all = given.map((column, index): Column & SentColumn => {
    const { name, typeOid } = column;
    const expression = outputs[index]?.expression;
    const source = expression?.kind === 'column' ? expression.name : null;
    const sourceType =
      source === null ? column.sourceType : writtenType(model, source, column.sourceType);
    // Keys come as they always have: their digests are kept.
    const isKey = source !== null && model.keyColumns.includes(source);
    if (sendsText && isNested({ ...column, sourceType }) && index < outputs.length && !isKey) {
      return { name, type: 'text', sourceType, sentAs: 'text' };
    }
    return { name, type: columnTypeOf(typeOid), sourceType };
  });
  return { all, width: outputs.length };
}
