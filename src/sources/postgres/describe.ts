import { SluiceError } from '../../domain/errors.ts';
import type { Column } from '../../domain/row-block.ts';
import type { SourceRequest } from '../source.ts';
import { beginSnapshot, type SnapshotOptions } from './begin-snapshot.ts';
import { closeConnection, describeColumns, query, serverVersionOf } from './connection.ts';
import { toSourceError } from './errors.ts';
import { nameFailingRow, searchOptions } from './failing-row.ts';
import type { PlanSelect } from './plan.ts';

/**
 * The columns of a request's rows. The server parses and plans the statement that would read them, and checks
 * the role's rights; it runs nothing.
 *
 * @throws SluiceError that names what is wrong: the query, the event filters or the model
 */
export async function describeRequest(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<readonly Column[]> {
  try {
    return await explain(options, plan, request, signal);
  } catch (error) {
    throw await findCulprit(error, options, plan, request, signal);
  }
}

async function explain(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<readonly Column[]> {
  const { describeSql, select } = plan(request);
  const client = await beginSnapshot(options, request.teamId, signal);
  try {
    const planned = select(
      await describeColumns(client, describeSql, signal),
      serverVersionOf(client),
    );
    await query(client, planned.explainSql(request.interval), signal);
    return planned.columns;
  } finally {
    await closeConnection(client);
  }
}

/**
 * The error of a request with a better name, if the request fails without its query too: then its event
 * filters or the model are wrong. Else a row that it fails on is named, if one is found.
 */
export async function findCulprit(
  error: unknown,
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<SluiceError> {
  const found = toSourceError(error);
  if (found.code !== 'query.invalid') return found;
  const fails = async (narrower: SourceRequest) => {
    const failure = await explain(options, plan, narrower, signal).then(() => null, toSourceError);
    return failure?.code === 'query.invalid' ? failure : null;
  };
  const plain = { ...request, select: 'rows', dslQuery: null } as const;
  const ofModel = await fails({ ...plain, includeEvents: null, excludeEvents: null });
  if (ofModel) return new SluiceError('source.model_invalid', ofModel.detail, error);
  const hasFilters = (request.includeEvents ?? request.excludeEvents) !== null;
  const ofFilters = hasFilters ? await fails(plain) : null;
  if (ofFilters) return new SluiceError('query.invalid_events', ofFilters.detail, error);
  const begin = () => beginSnapshot(searchOptions(options), request.teamId, signal);
  const sqlOf = (value: string) => plan(request).findRowSql(request.interval, value);
  return nameFailingRow(error, sqlOf, begin, signal);
}
