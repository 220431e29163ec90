import { SluiceError } from '../../domain/errors.ts';
import type { Model } from '../../domain/model.ts';
import type { Column } from '../../domain/row-block.ts';
import { type DataInterval, toTimestamp } from '../../domain/time.ts';
import { type ParsedQuery, parseQuery } from '../../query/parse-query.ts';
import {
  copyKeysSql,
  copySql,
  countSql,
  describeSql,
  outputsOf,
  type Selection,
} from '../../query/select.ts';
import { columnTypeOf } from './column-types.ts';
import type { PlanSelect } from './plan.ts';

/** Plans exports of a model, with or without a query over it. */
export function planModel(model: Model): PlanSelect {
  return async (request, describe) => {
    const query = readQuery(request.dslQuery, model);
    const selectionOf = ({ start, end }: DataInterval): Selection => ({
      model,
      query,
      teamId: request.teamId,
      range: { start: toTimestamp(start), end: toTimestamp(end) },
      includeEvents: request.includeEvents,
      excludeEvents: request.excludeEvents,
    });
    const counts = (range: DataInterval) => countSql(selectionOf(range));
    if (request.select === 'keys') {
      return {
        columns: keyColumnsOf(model, query),
        copySql: (range) => copyKeysSql(selectionOf(range)),
        countSql: counts,
      };
    }
    const described = await describe(describeSql(model, query));
    const columns = described.map(
      ({ name, typeOid, sourceType }): Column => ({
        name,
        type: columnTypeOf(typeOid),
        sourceType,
      }),
    );
    return {
      columns,
      copySql: (range) => copySql(selectionOf(range), columns, 'by_key'),
      countSql: counts,
    };
  };
}

function readQuery(text: string | null, model: Model): ParsedQuery | null {
  if (text === null) return null;
  const parsed = parseQuery(text, model);
  if ('ok' in parsed) return parsed.ok;
  const [{ construct, position, message }] = parsed.problems;
  throw new SluiceError('query.invalid', `${construct} at ${position}: ${message}`);
}

/** The keys, where each stands in the file under its own name; else none. */
function keyColumnsOf(model: Model, query: ParsedQuery | null): readonly Column[] {
  const outputs = outputsOf(model, query);
  const exported = model.keyColumns.every((key) =>
    outputs.some(
      ({ name, expression }) =>
        name === key && expression.kind === 'column' && expression.name === key,
    ),
  );
  if (!exported) return [];
  return model.keyColumns.map((name) => ({ name, type: 'text', sourceType: 'text' }));
}
