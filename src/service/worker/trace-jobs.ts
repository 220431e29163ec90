import type { Traces } from '../../foundation/domain/traces.ts';
import { queueNames } from '../../state/queue/catalogue.ts';
import type { QueuedEntry } from '../../state/queue/producer.ts';
import { findTraceparents } from '../../state/store/runs/traceparents.ts';
import type { Context } from '../use-cases/context.ts';
import type { QueueEntry } from '../admission/dispatch-runs.ts';
import type { AttemptReport } from './attempt-report.ts';

const queueOf = (small: boolean): string => (small ? queueNames.smallRuns : queueNames.runs);

/** By OpenTelemetry's conventions for messaging. */
const messaging = (operation: 'send' | 'process', queue: string, runId: string) => ({
  'messaging.system': 'bullmq',
  'messaging.destination.name': queue,
  'messaging.operation.name': operation,
  'messaging.operation.type': operation,
  'sluice.run.id': runId,
});

/** A span for each run that is enqueued, within the one that created the run. */
export async function traceSends(
  { db }: Pick<Context, 'db'>,
  traces: Traces,
  entries: readonly QueueEntry[],
): Promise<QueuedEntry[]> {
  if (entries.length === 0) return [];
  const parents = await findTraceparents(
    db,
    entries.map(({ runId }) => runId),
  );
  return entries.map((entry) => {
    const queue = queueOf(entry.small);
    const span = traces.begin(`send ${queue}`, {
      kind: 'producer',
      attributes: messaging('send', queue, entry.runId),
      parent: parents.get(entry.runId) ?? null,
    });
    span.end(null);
    return { ...entry, traceparent: span.traceparent };
  });
}

/** A span for an attempt of a run, within the one that enqueued it. */
export async function traceProcess(
  traces: Traces | undefined,
  small: boolean,
  runId: string,
  parent: string | null,
  execute: () => Promise<AttemptReport | null>,
): Promise<AttemptReport | null> {
  if (!traces) return execute();
  const queue = queueOf(small);
  const span = traces.begin(`process ${queue}`, {
    kind: 'consumer',
    attributes: messaging('process', queue, runId),
    parent,
  });
  try {
    const report = await traces.within(span, execute);
    span.set(factsOf(report));
    span.end(report?.fault ?? null);
    return report;
  } catch (error) {
    span.end('internal.error');
    throw error;
  }
}

function factsOf(report: AttemptReport | null): Record<string, string | number> {
  if (!report?.run) return { 'sluice.attempt.end': report?.end ?? 'not_begun' };
  const { run, end, rows, bytes } = report;
  return {
    'sluice.attempt.end': end,
    'sluice.attempt.number': run.attempt,
    'sluice.team.id': run.teamId,
    'sluice.export.id': run.exportId,
    'sluice.rows': rows,
    'sluice.bytes': bytes,
  };
}
