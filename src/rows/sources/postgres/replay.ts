import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { quoteText } from '../../query/print.ts';
import { queryServer } from './own-statement.ts';

interface History {
  readonly isStandby: boolean;
  readonly systemId: string;
  readonly timeline: number;
  readonly serverStart: string;
}

/** When the server was started. A standby that is promoted keeps it. */
const START = `extract(epoch FROM pg_postmaster_start_time())::text`;

/** Of a standby that streams, or else, if this role may not see it, of its last restart point, which can be older. */
const HISTORY = `
  SELECT pg_is_in_recovery() AS "isStandby", ${START} AS "serverStart",
         (SELECT system_identifier::text FROM pg_control_system()) AS "systemId",
         CASE WHEN pg_is_in_recovery()
              THEN coalesce((SELECT received_tli FROM pg_stat_wal_receiver),
                            (SELECT greatest(c.timeline_id, r.min_recovery_end_timeline)
                               FROM pg_control_checkpoint() c, pg_control_recovery() r))
              ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
         END AS timeline`;

async function readHistory(client: pg.Client, signal: AbortSignal): Promise<History> {
  const [history] = await queryServer<History>(client, HISTORY, signal);
  if (!history) throw new SluiceError('source.unavailable', 'the server gave no history');
  return history;
}

export async function findPrimaryFault(
  standby: pg.Client,
  primary: pg.Client,
  signal: AbortSignal,
): Promise<string | null> {
  const [of, behind] = [await readHistory(primary, signal), await readHistory(standby, signal)];
  if (of.isStandby) return 'settle_url names a standby, not the primary';
  if (of.systemId !== behind.systemId) return 'settle_url names the primary of another cluster';
  return null;
}

/**
 * After a failover a standby may not follow it for some minutes.
 * @throws SluiceError `source.unavailable` if the primary is not the one that `position` is of
 */
export async function isSameTimeline(
  standby: pg.Client,
  primary: pg.Client,
  position: Position,
  signal: AbortSignal,
): Promise<boolean> {
  const [of, behind] = [await readHistory(primary, signal), await readHistory(standby, signal)];
  checkStart(of.serverStart, startOf(position));
  return of.timeline === behind.timeline;
}

/** A place in what a primary writes, and when that primary was started: `0/1B9B6D8@1763960000.123`. */
type Position = string;

const startOf = (position: Position): string => position.split('@')[1] ?? '';

function checkStart(found: string, expected: string): void {
  if (found === expected) return;
  throw new SluiceError('source.unavailable', 'another primary answers than before');
}

/**
 * Every transaction that has ended is before it. @param serverStart of the primary at which they ended @throws
 * SluiceError `source.unavailable` if another one answers
 */
export async function readPosition(
  primary: pg.Client,
  serverStart: string,
  signal: AbortSignal,
): Promise<Position> {
  const [row] = await queryServer<{
    lsn: string;
    pageBytes: number;
    segmentBytes: number;
    serverStart: string;
  }>(
    primary,
    `SELECT ${START} AS "serverStart", pg_current_wal_insert_lsn()::text AS lsn, wal_block_size AS "pageBytes",
            bytes_per_wal_segment AS "segmentBytes" FROM pg_control_init()`,
    signal,
  );
  if (!row) throw new SluiceError('source.unavailable', 'the primary gave no position');
  checkStart(row.serverStart, serverStart);
  return `${lastRecordEnd(row.lsn, row.pageBytes, row.segmentBytes)}@${serverStart}`;
}

/** Bytes of a WAL page's header, and of the header of a segment's first page. */
const pageHeader = 24n;
const segmentHeader = 40n;

/**
 * Of an insert position. At the start of a page it is after the page's header, but replay ends before it: without this
 * we would wait for an idle primary forever.
 */
export function lastRecordEnd(lsn: string, pageBytes: number, segmentBytes: number): string {
  const [high = '0', low = '0'] = lsn.split('/');
  const position = (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
  const inSegment = position % BigInt(segmentBytes);
  const inPage = position % BigInt(pageBytes);
  const header =
    inSegment === segmentHeader ? segmentHeader : inPage === pageHeader ? pageHeader : 0n;
  const end = position - header;
  return `${(end >> 32n).toString(16)}/${(end & 0xffff_ffffn).toString(16)}`.toUpperCase();
}

/** A standby that has replayed it, or the primary itself. One that was promoted may lack some of it for ever. */
export async function hasReplayed(
  client: pg.Client,
  position: Position,
  signal: AbortSignal,
): Promise<boolean> {
  const [lsn, start] = [position.split('@')[0] ?? '', startOf(position)].map(quoteText);
  const [row] = await queryServer<{ done: boolean }>(
    client,
    `SELECT CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn() >= ${lsn}::pg_lsn, false)
                 ELSE ${START} = ${start} END AS done`,
    signal,
  );
  return row?.done ?? false;
}
