import { type Description, refusePartOfDay, type SourceRequest } from '../source.ts';
import { beginReading, type SnapshotOptions } from './begin-snapshot.ts';
import { closeConnection, describeColumns, query, serverVersionOf } from './connection.ts';
import { findHidden } from './hidden-rows.ts';
import { findLimits } from './relation-limits.ts';
import { describeIntervalColumn } from './interval-column.ts';
import type { PlanSelect } from './plan.ts';
import { applyTypeChanges, describeTypeChange, findTypeChanges } from './schema-changes.ts';

/** @param runs whether the rows are read too, and thrown away; throws what the server says */
export async function explain(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
  runs = false,
): Promise<Description> {
  const { model, describeSql, relation, used, select } = plan(request);
  const client = await beginReading(options, request.tenantKey, relation, signal);
  try {
    const { describeSql: usedSql, columns } = used;
    // A query may fail because of the change of a type: the change is what to name.
    const found = await describeColumns(client, usedSql ?? describeSql, signal);
    const changes = await findTypeChanges(client, columns, found, signal);
    const wider = applyTypeChanges(model, changes);
    const described = usedSql === null ? found : await describeColumns(client, describeSql, signal);
    const planned = select(described, serverVersionOf(client), wider);
    await query(client, planned.explainSql(request.interval, runs), signal);
    const hidden = await findHidden(client, relation, signal);
    if (hidden) throw hidden;
    const { columns: shown, moment } = planned;
    refusePartOfDay(moment.type === 'date', request.interval);
    const ofMoment = describeIntervalColumn({ ...moment, name: model.intervalColumn });
    return {
      columns: shown,
      warnings: [
        ...changes.map(describeTypeChange),
        ...(ofMoment === null ? [] : [ofMoment]),
        ...(await findLimits(client, relation, signal)),
      ],
    };
  } finally {
    await closeConnection(client);
  }
}
