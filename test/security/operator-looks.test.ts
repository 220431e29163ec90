import { beforeAll, describe, expect, test } from 'vitest';
import { errorCatalogue } from '../../src/foundation/domain/errors.ts';
import { hideValues } from '../../src/foundation/domain/hide-values.ts';
import { isOperatorScope } from '../../src/foundation/security/scopes.ts';
import type { ApiClient } from '../support/api-client.ts';
import { useApi } from '../support/api-under-test.ts';
import { fillPath, type Operation, readDocument } from '../support/openapi.ts';
import { createKey, createTenant } from '../support/tenants.ts';

/** Stands for each value of a row, and for each part of a secret. */
const canary = 'canary';
/** The end of a key's id. */
const end = '…nary';

/** As runs write them. */
const errors = [
  `run.rows_rejected: Rows were rejected, and on_rejected of the export is fail. Nothing was committed. (1 row was rejected. Column a: ${canary} has no date. The first: {"id":"${canary}"}.) Correct the rows.`,
  `source.rows_missing: Delivered rows are missing. (3 rows are delivered, 1 rows are in the new files, and 2 delivered rows are missing there. The first keys: ${canary}, ${canary}/2) Check why.`,
  `source.function_failed: A function raised an error. (no order for ${canary}, in PL/pgSQL function f() line 3) Ask your operator.`,
  `source.unsupported: Sluice cannot export. (invalid byte sequence for encoding "UTF8": ${canary}, in the row ${canary}) Ask your operator.`,
  `destination.key_taken: Another program wrote the file. (events/country=${canary}/2024.jsonl) Give the export its own prefix.`,
  `destination.invalid_credentials: The destination rejected the credentials. (the key ${end} does not exist) Update it.`,
  `destination.files_differ: The files differ. (events/a=${canary}/x.jsonl: source.rows_missing: ${canary}) Run verify.`,
];
const lines = [
  ...errors,
  `Step 7 (Own) writes: ${canary}`,
  `Step 7 (Own) writes: destination.unavailable: ${canary}`,
  `Step 7 (Own): 5 rows were rejected. Error: ${canary} The first: {"id":"${canary}"}`,
  `Step 7 (Own): 5 rows went on without this step. Error: ${canary} The first: {"id":"${canary}"}`,
  `2,000 rows were rejected. Column valid_to: ${canary}. The first: {"id":7}. Rejected rows are in files that end in _rejected.jsonl.`,
  `Delivered rows are removed, as missing_rows: drop asks for. 3 rows are delivered. The first keys: ${canary}.`,
  `Removed what was replaced: events/country=${canary}/city=${canary}/2024.jsonl, events/country=${canary}/b.jsonl.`,
  `The export is paused after 10 consecutive failures. Fix the cause, then unpause the export. ${errors[1]}`,
];

let operator: ApiClient;
let operations: readonly Operation[];
let ids: Readonly<Record<string, string | number>>;
let exportPath: string;

const api = useApi();
beforeAll(async () => {
  operator = await api.asOperator();
  ({ operations } = await readDocument(api.client));
  const start_at = '2024-01-01T00:00:00Z';
  const { id: exportId } = await api.create({ deadline_minutes: 60, start_at });
  exportPath = `${api.exports}/${exportId}`;
  const end = '2024-01-01T03:00:00Z';
  const started = await api.client.post(`${exportPath}/backfill`, { end_at: end });
  const runs = await api.db.query<{ id: string }>(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, error_code, latest_error, cursor)
     select $1, $2, 'Failed', '2024-02-01'::timestamptz + n * interval '1 hour', '2024-02-01'::timestamptz + (n + 1) * interval '1 hour',
            now(), split_part(error, ':', 1), error, jsonb_build_object('key', $4::text)
       from unnest($3::text[]) with ordinality as e (error, n) returning id`,
    [exportId, api.tenant.projectIds[0], errors, canary],
  );
  await api.sql`insert into log_entries (team_id, export_id, run_id, level, message) select
    ${api.tenant.projectIds[0]}, ${exportId}, r, 'WARNING', m
    from unnest(${lines}::text[]) m, unnest(array[null, ${runs[0]?.id}]::uuid[]) r`;
  await api.db.query(
    `update batch_exports set paused = true, paused_reason = $2, paused_code = 'source.rows_missing', failing_since = now(),
            failing_code = 'source.function_failed', failing_error = $3 where id = $1`,
    [exportId, `The export is paused. ${errors[1]}`, errors[2]],
  );
  await api.sql`update backfills set stopped_reason = ${errors[0]} where export_id = ${exportId}`;
  await api.db.query(
    `insert into activity (organization_id, team_id, subject_type, subject_id, action, changes) values ($1, $2, 'batch_export', $3, 'paused', $4)`,
    [
      api.tenant.organizationId,
      api.tenant.projectIds[0],
      exportId,
      JSON.stringify([{ field: 'paused_reason', before: null, after: errors[1] }]),
    ],
  );
  await api.db.query(
    `insert into export_checks (export_id, verified_at, result, breaches, detail) values ($1, now(), 'broken', 1, $2)
     on conflict (export_id) do update set verified_at = now(), result = 'broken', breaches = 1, detail = $2`,
    [
      exportId,
      `1 breach. Start a backfill.\n  I3 (Each row once): 2024-01-01T00:00:00Z to 2024-01-01T01:00:00Z: 2 rows doubled: ${canary}, ${canary}`,
    ],
  );
  ids = {
    project_id: api.tenant.projectIds[0],
    organization_id: api.tenant.organizationId,
    batch_export_id: exportId,
    run_id: runs[0]?.id ?? '',
    backfill_id: String(started.body.backfill_id),
  };
});

/** The path of an operation about the export, its backfill or its run. */
function pathOf({ path }: Operation): string {
  const last = path.includes('/backfills/') ? ids.backfill_id : ids.run_id;
  const id = path.includes('{batch_export_id}') ? last : ids.batch_export_id;
  return fillPath(path, { ...ids, id: id ?? '' });
}

/** What the operators' key may read of a customer, by the document. */
const looks = [
  'listActivity',
  'listBackfills',
  'listBatchExportLogs',
  'listBatchExportRunLogs',
  'listBatchExportRuns',
  'listStatements',
  'previewSchedule',
  'retrieveBackfill',
  'retrieveBatchExport',
  'retrieveBatchExportRun',
  'retrieveCoverage',
  'retrieveErasure',
  'retrieveStatement',
  'retrieveStatementHead',
];

describe("an operator's key on every operation", () => {
  test('reads what is listed, and is refused with a sentence everywhere else', async () => {
    const read: string[] = [];
    for (const operation of operations) {
      const { scope, method, id } = operation;
      if (scope === null || isOperatorScope(scope)) continue;
      const answer = await operator.send(method, pathOf(operation), operation.body && { raw: '{' });
      // There is no statement yet.
      const isRead =
        answer.status < 400 || (/^retrieve(Statement|Erasure)/.test(id) && answer.status === 404);
      if (isRead) read.push(id);
      else {
        expect([id, answer.status, answer.body.code]).toEqual([id, 403, 'permission_denied']);
        expect(answer.body.detail).toContain('the key of an operator');
      }
      expect(`${id} ${answer.text}`).not.toContain(canary);
      expect(`${id} ${answer.text}`).not.toContain(end);
    }
    // Each under both names of its path.
    const named = (ids: readonly string[]) => [
      ...new Set(ids.map((id) => id.replace(/OfEnvironment$/, '')).toSorted()),
    ];
    expect(named(read)).toEqual(looks);
    const documented = operations.filter(({ otherScope }) => otherScope === 'operator:read');
    expect(documented.map(({ id }) => id).toSorted()).toEqual(read.toSorted());
  });

  test('shows no value of a row and no part of a secret, also not by its own operations', async () => {
    for (const operation of operations) {
      if (operation.method !== 'GET' || !isOperatorScope(operation.scope ?? '')) continue;
      const { text } = await operator.get(pathOf(operation));
      expect(`${operation.id} ${text}`).not.toContain(canary);
    }
    const { body } = await operator.get(exportPath);
    expect(body.secrets).toEqual([
      { name: 'aws_access_key_id', ends_with: null },
      { name: 'aws_secret_access_key', ends_with: null },
    ]);
    // The owner sees what an operator does not.
    for (const path of ['', '/runs', '/logs', '/backfills', '/activity']) {
      expect((await api.client.get(`${exportPath}${path}`)).text).toContain(canary);
    }
  });

  test('does not find by a search what the answer hides', async () => {
    for (const path of ['/logs', `/runs/${ids.run_id}/logs`]) {
      const { status, body } = await operator.get(`${exportPath}${path}?search=${canary}`);
      expect([status, body.attr]).toEqual([400, 'search']);
    }
  });

  test('needs operator:read, and a project that exists', async () => {
    expect((await (await api.asOperator(['operator:write'])).get(exportPath)).status).toBe(200);
    expect((await (await api.asOperator(['plugin:read'])).get(exportPath)).status).toBe(403);
    for (const project of ['@current', '0', '2000000000', 'nonsense']) {
      const path = exportPath.replace(/projects\/\d+/, `projects/${project}`);
      expect([project, (await operator.get(path)).status]).toEqual([project, 404]);
    }
    const other = await createTenant(api.db);
    const elsewhere = exportPath.replace(/projects\/\d+/, `projects/${other.projectIds[0]}`);
    expect((await operator.get(elsewhere)).status).toBe(404);
    const forged = { organizationId: other.organizationId, scopes: ['*', 'operator:read'] };
    expect((await (await api.withNewKey(forged)).get(exportPath)).status).toBe(403);
  });

  test('is in the changes of the export once per key and hour', async () => {
    const { key, apiKey } = await createKey(api.db, { organizationId: null, name: 'On-call' });
    const again = api.client.withKey(key);
    await Promise.all(['', '/runs', '/logs', '/coverage'].map((at) => again.get(exportPath + at)));
    const { body } = await api.client.get(`${exportPath}/activity?limit=1000`);
    const seen = body.results.filter(({ key_id }) => key_id === apiKey.id);
    expect(seen).toMatchObject([{ action: 'viewed by an operator', key_name: 'On-call' }]);
    await api.sql`update activity set happened_at = happened_at - interval '1 hour'
      where key_id = ${apiKey.id}`;
    await again.get(exportPath);
    const [row] = await api.sql<{ count: number; own: number }>`select count(*) as count, count(*)
      filter (where organization_id = ${api.tenant.organizationId}
      and team_id = ${api.tenant.projectIds[0]}) as own from activity where key_id = ${apiKey.id}`;
    expect(row).toEqual({ count: 2, own: 2 });
  });
});

test('an error of any code keeps its code and its remedy', () => {
  for (const [code, { means, remedy }] of Object.entries(errorCatalogue)) {
    const shown = hideValues(`${code}: ${means} (key=${canary}/x) ${remedy}`);
    expect(shown).toContain(`${code}: ${means}`);
    expect(shown.endsWith(remedy)).toBe(true);
    expect(shown).not.toContain(canary);
  }
  const denied =
    'destination.access_denied: The destination refused access. (s3:PutObject at my-bucket) Grant it.';
  expect(hideValues(denied)).toBe(denied);
  expect(hideValues('Completed: 8312 rows, 5 bytes in 1 file.')).toBe(
    'Completed: 8312 rows, 5 bytes in 1 file.',
  );
});
