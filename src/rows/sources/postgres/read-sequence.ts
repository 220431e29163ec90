import { SluiceError } from '../../../foundation/domain/errors.ts';
import { anyInterval, type SequenceReading } from '../source.ts';
import { inSnapshot } from './in-snapshot.ts';
import type { PlannedRequest } from './snapshot-connections.ts';
import { query } from './connection.ts';
import type { Look } from './live-transactions.ts';
import { openSince } from './sequence-point.ts';

interface Reading extends Omit<PlannedRequest, 'request'> {
  readonly look: () => Promise<Look>;
}

/** Of versions that are times it also looks for the oldest transaction, before any later snapshot. */
export async function readSequence(
  { options, plan, look }: Reading,
  model: string,
  tenantKey: string,
  signal: AbortSignal,
): Promise<SequenceReading> {
  const all = { dslQuery: null, includeEvents: null, excludeEvents: null };
  const element = { number: 0, versionType: 'xid8' as const, from: null, newTables: [] };
  const { sequence } = plan({
    ...{ model, tenantKey, interval: anyInterval, whole: true, ...all },
    element,
  });
  if (!sequence) throw new Error('a request of an element has no sequence');
  const answer = await inSnapshot(options, tenantKey, null, signal, async (client) => {
    const [row] = await query<{ point: string }>(client, sequence.sql, signal);
    if (!row) throw new SluiceError('source.unavailable', 'the server gave no state of the table');
    return row.point;
  });
  const reading = sequence.of(answer, null);
  if (reading.point.versionType === 'xid8' || !reading.isSettled) return reading;
  return sequence.of(answer, openSince(await look()));
}
