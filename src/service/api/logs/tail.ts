import { Type } from 'typebox';
import { Refusal } from '../../../foundation/domain/problem.ts';
import { findLogTail, type TailPosition } from '../../../state/store/exports/log-tail.ts';
import { type Api, batchExportOf } from '../api.ts';
import { clampLimit } from '../lists/paging.ts';
import { exportOperations, type Family } from '../operations.ts';
import { loadRun } from '../runs/load.ts';
import { errors } from '../schemas/error.ts';
import { named, Ref } from '../schemas/shapes.ts';
import { BatchExportLog, logView } from './schema.ts';

export const LogTail = named(
  'LogTail',
  Type.Object(
    {
      results: Type.Array(
        Type.Object({
          id: Type.Integer({
            description: 'An entry can be sent twice, by two requests. It has the same id then.',
          }),
          entry: Ref(BatchExportLog),
        }),
        { description: 'Oldest first.' },
      ),
      cursor: Type.String({ description: 'Send it with the next request. It does not expire.' }),
      has_more: Type.Boolean({ description: 'Whether more entries wait already.' }),
      ended: Type.Boolean({
        description: 'Whether the run had ended before this answer: its log is complete.',
      }),
    },
    { description: 'What is new in the log of a run.' },
  ),
);

const TailQuery = Type.Object({
  cursor: Type.Optional(Type.String({ description: 'That of the answer before.' })),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'Number of entries; 100, at most 1000. An answer also ends before 1 MiB.',
    }),
  ),
});

/** The log of a run as it is written: a client that goes on with its last cursor misses no entry. */
export function logTailRoutes(api: Api, family: Family): void {
  const { read } = exportOperations(family);

  api.get(
    '/runs/:run_id/logs/tail',
    read('tailBatchExportRunLogs', 'Follow the log of a run', ['batch_export_id', 'run_id'], {
      querystring: TailQuery,
      response: { 200: Ref(LogTail), ...errors() },
    }),
    async (request) => {
      const { db } = request.context;
      const { cursor, limit } = request.query;
      const position = cursor === undefined ? null : positionOf(cursor);
      const { run_id: runId } = request.params as { run_id: string };
      const exportId = batchExportOf(request).id;
      // Before its log: what the end of the run writes is in the answer that says it.
      const run = await loadRun(request, runId);
      const tail = await findLogTail(db, { exportId, runId: run.id }, position, clampLimit(limit));
      if (!tail) throw invalidCursor();
      return {
        results: tail.entries.map((entry) => ({ id: entry.id, entry: logView(entry) })),
        cursor: cursorOf(tail.position),
        has_more: tail.hasMore,
        ended: run.finishedAt !== null,
      };
    },
  );
}

function cursorOf({ transaction, page }: TailPosition): string {
  const parts = ['tail', transaction, ...(page ? [page.afterId, page.next] : [])];
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/** @throws Refusal (400) for a text that `cursorOf` did not make */
function positionOf(cursor: string): TailPosition {
  const parts = decode(cursor);
  const [kind, transaction, afterId, next] = Array.isArray(parts) ? parts : [];
  if (kind !== 'tail' || !isTransaction(transaction)) throw invalidCursor();
  if (afterId === undefined) return { transaction, page: null };
  if (!Number.isSafeInteger(afterId) || afterId < 0 || !isTransaction(next)) throw invalidCursor();
  return { transaction, page: { afterId, next } };
}

/** Far below the bound of a bigint. */
const isTransaction = (value: unknown): value is string =>
  typeof value === 'string' && /^[1-9]\d{0,17}$/.test(value);

function decode(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return null;
  }
}

function invalidCursor(): Refusal {
  const detail = 'The cursor is not valid. Begin again without one.';
  return new Refusal({ code: 'invalid_input', detail, attr: 'cursor' });
}
