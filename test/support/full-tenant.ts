import { SluiceError } from '../../src/foundation/domain/errors.ts';
import { appendLogEntries } from '../../src/state/store/exports/log-entries.ts';
import { noteUploads } from '../../src/state/store/files/upload-places.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  emptyCommit,
  failAttempt,
  hourMs,
  listRuns,
  type RunSide,
} from './run-side.ts';
import { beginCommit } from './run-verbs.ts';
import { createTenant, type Tenant } from './tenants.ts';

/** A tenant with a row in every table that can have rows of tenants. */
export interface FullTenant extends Tenant {
  /** Of the first project; it has one completed interval with two files, a failed and a waiting run. */
  readonly exportId: string;
  readonly runIds: readonly string[];
}

const config = { bucket_name: 'customers-bucket', prefix: 'events/{year}/', region: 'eu-west-1' };

/** @param ownSource the source of a plugin that no other tenant has */
export async function fillTenant(
  side: Pick<RunSide, 'db' | 'context'>,
  ownSource: string,
): Promise<FullTenant> {
  const { db, context } = side;
  const tenant = await createTenant(db);
  const [teamId] = tenant.projectIds;
  const { organizationId, keyId } = tenant;
  const destination = { type: 'S3', config, secrets: null };
  const wanted = { teamId, createdMsAgo: 4 * hourMs, destination };
  const { id: exportId } = await createExportOfThePast({ db, teamId }, wanted);
  await db.query(
    `insert into notification_targets (organization_id, team_id, kind, description, format, recipients, events)
     values ($1, null, 'email', 'all', 'json', '{a@example.com}', '{export.failing}'), ($1, $2, 'email', 'one', 'json', '{b@example.com}', '{export.failing}')`,
    [organizationId, teamId],
  );
  await decide(context);
  const runs = await listRuns(db, exportId);
  const [first, second, third] = runs.map(({ id }) => id);
  await complete(context, await claim(side, first ?? ''));
  await failAttempt(side, context, second ?? '', new SluiceError('query.invalid'));
  const run = await claim(side, third ?? '');
  await noteUploads(db, run, 60_000);
  await beginCommit(db, run, 1, {}, { ...emptyCommit, keys: ['events/part'] });
  await db.query(
    `update receipts set rows = 3, bytes = 30, files = '[{"key": "a", "rows": 1}, {"key": "b", "rows": 2}]' where export_id = $1`,
    [exportId],
  );
  await appendLogEntries(db, [
    { teamId, exportId, runId: first ?? null, level: 'INFO', message: 'line' },
  ]);
  const ofExport = [exportId];
  for (const statement of [
    `insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs)
     select id, team_id, '2024-01-01', '2024-01-02', 1, 1 from batch_exports where id = $1`,
    `insert into accepted_intervals select id, '2024-01-01', '2024-01-02' from batch_exports where id = $1`,
    `insert into holes select id, '2024-01-03', '2024-01-04' from batch_exports where id = $1`,
    `insert into export_checks (export_id, verified_at, result) select id, now(), 'proven' from batch_exports where id = $1`,
    `insert into late_intervals (export_id, data_interval_start, data_interval_end, due_by, turn)
     select id, '2024-01-03', '2024-01-04', '2024-01-04', 'ours' from batch_exports where id = $1`,
    `insert into stated_intervals (export_id, data_interval_start, data_interval_end) select id, '2024-01-03', '2024-01-04' from batch_exports where id = $1`,
    `insert into statements (export_id, number, body, sha256, period_start, period_end, balance) select id, 1, '', '', now(), now(), '{}' from batch_exports where id = $1`,
    `insert into guarded_work (kind, id, expires_at) select 'look_back', id, now() from batch_exports where id = $1`,
    `insert into former_destinations (export_id, version, destination_config) select id, 7, '{"bucket_name": "former", "region": "eu-west-1"}' from batch_exports where id = $1`,
  ]) {
    await db.query(statement, ofExport);
  }
  for (const [statement, ...values] of [
    [
      `insert into plugins (organization_id, name, source) values ($1, 'shared', 'shared'), ($1, 'own', $2)`,
      organizationId,
      ownSource,
    ],
    [
      `with config as (
         insert into pipeline_transformation_configs (team_id, plugin, "order") values ($1, 3, 1) returning id
       )
       insert into transformation_versions (config_id, version, team_id, plugin, config) select id, 1, $1, 3, '{}' from config`,
      teamId,
    ],
    [
      `insert into idempotency_keys values ($1, 'once', '\\x00', 201, '{"team_id":0}', now())`,
      keyId,
    ],
    [
      `insert into used_budgets (owner, span) values ($1, 'hour'), ($2, 'day')`,
      keyId,
      organizationId,
    ],
    [
      `insert into activity (organization_id, subject_type, subject_id, action, key_id) values ($1, 'api_key', $2::uuid::text, 'created', $2::uuid)`,
      organizationId,
      keyId,
    ],
  ] as const) {
    await db.query(statement, values);
  }
  return { ...tenant, exportId, runIds: runs.map(({ id }) => id) };
}
