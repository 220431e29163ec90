import type { Pool } from 'pg';
import { canaryOf } from './canaries.ts';
import { bucket, type Installation, region } from './installation.ts';
import type { OperationName } from './s3-server/operations.ts';
import { until } from './until.ts';

/** A fixed hour of the past: no test depends on the time of day. */
export const hour = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T01:00:00Z' } as const;

/** An hour with few rows, for tests that need no parts. */
export const quiet = { start: '2024-03-02T00:00:00Z', end: '2024-03-02T01:00:00Z' } as const;

/** A part of 5 MiB and a short one. */
export const twoParts = { rows: 1_500, rowBytes: 4_000 } as const;

/** Two parts in `hour`, and 50 rows in `quiet`. */
export async function insertLoudAndQuiet({ pool, tenant }: Installation): Promise<void> {
  const team = tenant.projectIds[0];
  await insertEvents(pool, { team, ...twoParts });
  await insertEvents(pool, { team, rows: 50, ...quiet });
}

export interface NewEvents {
  readonly team: number;
  readonly rows: number;
  /** The rows' arrival is spread over it. */
  readonly start?: string;
  readonly end?: string;
  /** About the size of one row as JSON; default 500. */
  readonly rowBytes?: number;
}

/** Writes rows into the built-in `events` table, each with its team's canary. */
export async function insertEvents(pool: Pool, given: NewEvents): Promise<void> {
  const { team, rows, start = hour.start, end = hour.end, rowBytes = 500 } = given;
  await pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
     select gen_random_uuid(), $1, 'event ' || n % 5, 'user ' || n % 97,
            jsonb_build_object('n', n, 'canary', $6::text, 'pad', repeat(md5(n::text), $5)), at, at, at
       from generate_series(0, $2::int - 1) n,
            lateral (select $3::timestamptz + ($4::timestamptz - $3::timestamptz) * (n::float8 / $2) as at) t`,
    [team, rows, start, end, Math.max(0, Math.round((rowBytes - 350) / 32)), canaryOf(team)],
  );
}

export interface S3ExportChanges {
  readonly name?: string;
  readonly interval?: string;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

/**
 * Creates an export of the tenant's first project to the installation's bucket, by the API. Its
 * schedule has ended, so that a test that runs across a full hour gets no extra run; `end_at: null` for
 * one that is live.
 */
export async function createS3Export(
  installation: Installation,
  { config = {}, ...changes }: S3ExportChanges = {},
): Promise<string> {
  const answer = await installation.client.post(`${projectPath(installation)}/batch_exports/`, {
    name: 'Events to S3',
    interval: 'hour',
    end_at: '2024-12-31T00:00:00Z',
    ...changes,
    destination: {
      type: 'S3',
      config: {
        bucket_name: bucket,
        region,
        prefix: '{batch_export_id}/',
        endpoint_url: installation.s3.endpoint,
        aws_access_key_id: installation.secrets.get('the access key id'),
        aws_secret_access_key: installation.secrets.get('the secret access key'),
        ...config,
      },
    },
  });
  if (answer.status !== 201) throw new Error(`the export was not created: ${answer.text}`);
  return answer.body.id;
}

/** Starts a backfill by the API. @returns its id */
export async function backfill(
  installation: Installation,
  exportId: string,
  range: { readonly start: string; readonly end: string } = hour,
  options: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const path = `${projectPath(installation)}/batch_exports/${exportId}/backfill/`;
  const body = { start_at: range.start, end_at: range.end, ...options };
  // A backfill ends shortly after its last run.
  const answer = await until(async () => {
    const sent = await installation.client.post(path, body);
    return sent.status === 409 ? null : sent;
  });
  if (answer.status !== 200) throw new Error(`the backfill was not started: ${answer.text}`);
  return String(answer.body.backfill_id);
}

export function projectPath({ tenant }: Pick<Installation, 'tenant'>): string {
  return `/api/projects/${tenant.projectIds[0]}`;
}

/** Deletes every export of the tenant, so that the next test's checks need not read its files again. */
export async function retireExports(installation: Installation): Promise<void> {
  const path = `${projectPath(installation)}/batch_exports/`;
  const { body } = await installation.client.get(`${path}?limit=1000`);
  for (const { id } of body.results) await installation.client.delete(`${path}${id}/`);
}

/** A run as its row shows it. */
export interface RunRow {
  readonly id: string;
  readonly status: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly faults: number;
  readonly fence: number;
  readonly holderPid: number | null;
  readonly errorCode: string | null;
  readonly latestError: string | null;
  readonly rows: number | null;
}

/** Runs of an export, oldest interval first. */
export async function readRuns({ pool }: Installation, exportId: string): Promise<RunRow[]> {
  // The holder is named `<host>-<pid>-<8 digits>/<claim>`.
  const { rows } = await pool.query<RunRow>(
    `select id, status, attempt, crashes, faults, fence::int, error_code as "errorCode", latest_error as "latestError",
            records_completed::int as rows, (regexp_match(lease_holder, '-(\\d+)-[0-9a-f]{8}/'))[1]::int as "holderPid"
       from runs where export_id = $1 order by data_interval_start, generation`,
    [exportId],
  );
  return rows;
}

/** Waits until an export has `count` runs and all of them have ended. */
export async function untilEnded(
  installation: Installation,
  exportId: string,
  { count = 1, timeoutMs = 60_000 }: { count?: number; timeoutMs?: number } = {},
): Promise<RunRow[]> {
  let runs: RunRow[] = [];
  return until(
    async () => {
      runs = await readRuns(installation, exportId);
      const ended = runs.every(({ status }) => status !== 'Starting' && status !== 'Running');
      return ended && runs.length >= count ? runs : null;
    },
    {
      timeoutMs,
      everyMs: 50,
      message: () =>
        `${count} runs have ended; ${runs.length} are there, the live ones: ${JSON.stringify(
          runs.filter(({ status }) => status === 'Starting' || status === 'Running').slice(0, 5),
        )}`,
    },
  );
}

/** From now on the store takes so long for each request of this kind. */
export const slowDown = ({ s3 }: Installation, operation: OperationName, delayMs: number) =>
  s3.faults.add({ match: { operation }, times: Number.POSITIVE_INFINITY, effect: { delayMs } });

/** Parts of an export's files that are stored at the destination. */
export async function countParts({ s3 }: Installation, exportId: string): Promise<number> {
  const uploads = await s3.uploads(bucket);
  const ours = uploads.filter(({ key }) => key.startsWith(exportId));
  return ours.reduce((sum, { parts }) => sum + parts.length, 0);
}
