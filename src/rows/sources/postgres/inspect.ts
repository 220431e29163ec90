import type pg from 'pg';
import type { SourceState } from '../source.ts';
import { markedSql, readServer } from './live-transactions.ts';
import { queryServer } from './own-statement.ts';
import { findMissingSettleRights } from './grants.ts';
import { findPrimaryFault } from './replay.ts';

export interface InspectedServers {
  readonly client: pg.Client;
  /** Null if the primary is not known. The connection is closed afterwards. */
  readonly withPrimary: (<T>(work: (primary: pg.Client) => Promise<T>) => Promise<T>) | null;
  readonly allowsStandby: boolean;
}

type Finding = SourceState['findings'][number];

const error = (detail: string): Finding => ({ severity: 'error', detail });
const warning = (detail: string): Finding => ({ severity: 'warning', detail });

export async function inspectSource(
  { client, withPrimary, allowsStandby }: InspectedServers,
  signal: AbortSignal,
): Promise<SourceState> {
  const server = await readServer(client, signal);
  const denied = await findDenied(client, server.isStandby, signal);
  // A value that the role may not read is not shown either.
  const oldestSnapshotSeconds = await readOldestSnapshot(client, signal).catch((error) => {
    if (denied.length === 0) throw error;
    return 0;
  });
  const held = [...denied, ...findLongSnapshot(oldestSnapshotSeconds)];
  if (!server.isStandby) {
    const findings = [...held, ...(await findHiddenTimes(client, signal))];
    return { findings, clockMs: server.nowMs, oldestSnapshotSeconds, replayLagSeconds: null };
  }
  const replayLagSeconds = await readLag(client, signal);
  if (withPrimary === null) {
    const finding = allowsStandby
      ? warning(
          'The source is a standby without its primary: its intervals never settle. Only look-backs find late rows: set look_back_hours of its models or exports.',
        )
      : error(
          'The source is a standby, which does not see the transactions of its primary. Set settle_url of the model, SOURCE_PRIMARY_URL, or ALLOW_UNSETTLED_STANDBY=true.',
        );
    const findings = [finding, ...held];
    return { findings, clockMs: server.nowMs, oldestSnapshotSeconds, replayLagSeconds };
  }
  return withPrimary(async (primary) => {
    const fault = await findPrimaryFault(client, primary, signal);
    const faults =
      fault === null
        ? await findHiddenTimes(primary, signal)
        : [error(`The source is a standby, and ${fault}. Correct settle_url.`)];
    const { nowMs } = await readServer(primary, signal);
    const findings = [...faults, ...(await findDenied(primary, true, signal)), ...held];
    return { findings, clockMs: nowMs, oldestSnapshotSeconds, replayLagSeconds };
  });
}

async function findDenied(
  client: pg.Client,
  isPaired: boolean,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const grants = await findMissingSettleRights(client, isPaired, signal);
  if (grants.length === 0) return [];
  const lacks = 'The role lacks rights to see which transactions are open, so every run fails.';
  return [error(`${lacks} ${grants.join('; ')}.`)];
}

/** Runs that hold a snapshot for longer hold back vacuum. */
const longSnapshotSeconds = 3_600;

function findLongSnapshot(ageSeconds: number): readonly Finding[] {
  if (ageSeconds < longSnapshotSeconds) return [];
  const hours = Math.round(ageSeconds / 360) / 10;
  const effect = 'VACUUM of the source removes no newer rows meanwhile';
  return [
    warning(
      `A run has read from one snapshot for ${hours} hours: ${effect}. After 24 hours it gives up its attempt.`,
    ),
  ];
}

/** The runs of all workers have the role of this session's source. The address may give its sessions another name. */
async function readOldestSnapshot(client: pg.Client, signal: AbortSignal): Promise<number> {
  const [row] = await queryServer<{ seconds: number | null }>(
    client,
    `SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float8 AS seconds
       FROM pg_stat_activity
      WHERE usename = session_user AND datname = current_database() AND backend_xmin IS NOT NULL
        AND pid <> pg_backend_pid() AND pid IN (${markedSql})`,
    signal,
  );
  return Math.max(row?.seconds ?? 0, 0);
}

async function findHiddenTimes(
  client: pg.Client,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const [row] = await queryServer<{ maySee: boolean; tracks: boolean }>(
    client,
    `SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS "maySee",
            current_setting('track_activities')::boolean AS tracks`,
    signal,
  );
  const again = 'so an interval counts as unsettled until a second check';
  const unseen = `The role does not see when transactions of other roles began, ${again}. Grant it pg_read_all_stats.`;
  const untracked = `track_activities is off: sessions do not show what they do, ${again}. Turn it on.`;
  return [...(row?.maySee ? [] : [warning(unseen)]), ...(row?.tracks ? [] : [warning(untracked)])];
}

/** 0 if everything received has been replayed: an idle primary writes nothing that could be late. */
async function readLag(client: pg.Client, signal: AbortSignal): Promise<number> {
  const [row] = await queryServer<{ seconds: number | null }>(
    client,
    `SELECT CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
                 ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())
            END::float8 AS seconds`,
    signal,
  );
  return Math.max(row?.seconds ?? 0, 0);
}
