import { setTimeout as sleep } from 'node:timers/promises';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Config, readConfig } from '../../foundation/config/config.ts';
import { startApi } from '../../main/api-process.ts';
import { runProcess } from '../../main/run-process.ts';
import { startWorker } from '../../main/worker-process.ts';
import type { CliDeps, Terminal } from '../cli/deps.ts';
import {
  allowQuickstartS3,
  openQuickstartS3,
  placeQuickstartS3,
  type QuickstartS3,
} from './local-s3.ts';
import { toTimestamp } from '../../foundation/domain/time.ts';
import type { Foundation } from '../../main/foundation.ts';
import { writableSourceUrl } from '../../main/models.ts';
import { verifyInstallation } from '../../main/verify.ts';
import { countEvents, generateEvents } from '../../rows/sources/index.ts';
import { readNow } from '../../state/store/intervals/ticks.ts';
import { type Api, connectApi } from '../cli/api/api.ts';
import { createProgress } from '../cli/api/progress.ts';
import type { AnswerOf } from '../cli/api/types.ts';
import { count, paintFor, tableLines } from '../cli/text.ts';
import type { Database } from '../../state/store/database/database.ts';
import { findProject } from '../../state/store/tenants/tenants.ts';
import {
  createOrganization,
  createProject,
} from '../../service/use-cases/tenants/change-tenants.ts';
import { issueKey } from '../../service/use-cases/tenants/keys.ts';

/**
 * Starts everything in this process, exports a day of generated events and proves it; then keeps serving.
 *
 * @param exit end afterwards; the exit code is not 0 if something was not proven
 * @param rows events to write, if there are none
 */
export async function runQuickstart(
  { exit, rows }: { readonly exit: boolean; readonly rows: number },
  { terminal, print }: Pick<CliDeps, 'terminal' | 'print'>,
): Promise<void> {
  const given = readConfig();
  await placeQuickstartS3(given);
  const config = {
    ...(await allowQuickstartS3(given)),
    LOG_LEVEL: terminal.isTerminal || exit ? ('warn' as const) : given.LOG_LEVEL,
  };
  await runProcess('quickstart', config, config.PORT, async (foundation, keep, end) => {
    const s3 = await openQuickstartS3(config);
    if (!s3) throw new Error('the S3 of the quickstart has no address');
    keep({ close: () => s3.stop() });
    keep(await startWorker(foundation));
    const { address } = keep(await startApi(foundation));
    await foundation.databases.publish(address);
    const tenant = await ensureTenant(foundation.db, config.SLUICE_DATA_DIR);
    const shown = { foundation, config, address, s3, tenant, rows, terminal, print };
    const proven = await quickstart({ ...shown, alwaysProve: exit });
    if (!proven) process.exitCode = 1;
    const lines = [
      '',
      `  API            ${address}/api/projects/${tenant.projectId}/batch_exports/`,
      `  documentation  ${address}/api/docs`,
      `  page           ${address}/console/`,
      `  queues         ${address}/admin/queues   (the operator key as password)`,
      `  key            ${tenant.key}`,
      `  operator key   ${tenant.operatorKey}`,
      `  S3             ${s3.endpoint}   (bucket ${s3.bucket}, access key ${s3.accessKeyId}, secret key ${s3.secretAccessKey})`,
      '',
      `ready ${address}`,
    ];
    for (const line of lines) print(line);
    if (exit) await end();
  });
}

const hourMs = 3_600_000;
const hours = 24;

const exportName = 'Quickstart: events to S3, hourly';

interface QuickstartOptions extends Pick<CliDeps, 'terminal' | 'print'> {
  readonly foundation: Foundation;
  readonly config: Config;
  /** Where the API serves. */
  readonly address: string;
  readonly s3: QuickstartS3;
  readonly tenant: QuickstartTenant;
  /** Events to write, if there are none. */
  readonly rows: number;
  /** Reads and compares every row again even if this start exported nothing. */
  readonly alwaysProve: boolean;
}

/** Shows the main job on real rows. @returns whether everything was proven */
async function quickstart(options: QuickstartOptions): Promise<boolean> {
  const { foundation, address, tenant, terminal, print } = options;
  const api = connectApi({
    ...{ url: address, key: tenant.key, project: String(tenant.projectId) },
    signal: new AbortController().signal,
    onWait: (seconds) => print(`The API asks to wait for ${seconds} seconds …`),
  });
  const end = Math.floor((await readNow(foundation.db)) / hourMs) * hourMs;
  await ensureEvents(options, { start: end - hours * hourMs, end });
  const batchExport = await ensureExport(options, api);
  const listCompleted = async (ordering: '-data_interval_start' | 'data_interval_start') =>
    (
      await api.call('get', 'batch_exports/{batch_export_id}/runs', {
        path: { batch_export_id: batchExport.id },
        query: { status: ['Completed'], ordering },
      })
    ).results;
  const newest = '-data_interval_start';
  const exported = options.s3.kept && (await listCompleted(newest)).length >= hours;
  if (!exported) await backfill(options, api, batchExport.id, end);

  const results = await listCompleted(newest);
  const table = runTable(results.slice(0, hours).toReversed(), terminal);
  for (const line of ['', exportName, ...table, '']) print(line);
  if (exported && !options.alwaysProve) {
    print('  exported by an earlier start; `npx sluice verify` proves it again');
    return true;
  }
  // Rows of other days are not exported.
  const [first] = await listCompleted('data_interval_start');
  const range = {
    start: first?.data_interval_start ? Date.parse(first.data_interval_start) : 0,
    end,
  };
  return prove(options, batchExport.id, range);
}

/** The address of the table for its owner: the role of exports may neither write nor count rows. */
function tableUrl({ config, foundation }: Pick<QuickstartOptions, 'config' | 'foundation'>) {
  return writableSourceUrl(config, foundation.databases.url);
}

async function prove(
  options: QuickstartOptions,
  exportId: string,
  range: { start: number; end: number },
): Promise<boolean> {
  const { foundation, config, tenant, print } = options;
  const { db, databases } = foundation;
  const report = await verifyInstallation(config, db, databases.sourceUrl, {
    batchExport: exportId,
  });
  for (const { invariant, detail } of report.findings) print(`  BROKEN ${invariant}: ${detail}`);
  for (const { failure } of report.results) if (failure !== null) print(`  NOT READ ${failure}`);
  const events = await countEvents(tableUrl(options), tenant.projectId, range);
  const proven = report.findings.length === 0 && report.rows === events;
  const rows = report.rows.toLocaleString('en');
  print(
    proven
      ? `  proven: ${rows} rows in ${report.files} files of ${report.intervals} manifests are exactly the ${events.toLocaleString('en')} rows of the table`
      : `  NOT PROVEN: ${rows} rows in current files, ${events} rows in the table`,
  );
  return proven;
}

async function ensureEvents(
  { tenant, rows, terminal, print, ...options }: QuickstartOptions,
  range: { start: number; end: number },
): Promise<void> {
  const sourceUrl = tableUrl(options);
  if ((await countEvents(sourceUrl, tenant.projectId, { start: 0, end: range.end })) > 0) return;
  print(`Writing ${rows.toLocaleString('en')} events of the last ${hours} hours …`);
  const progress = createProgress(terminal);
  await generateEvents(sourceUrl, { teamId: tenant.projectId, rows, range }, (written) =>
    progress.show(written / rows, `${written.toLocaleString('en')} rows`),
  );
  progress.end();
}

async function ensureExport(
  { s3, print }: QuickstartOptions,
  api: Api,
): Promise<{ readonly id: string }> {
  const config = {
    bucket_name: s3.bucket,
    region: 'us-east-1',
    prefix: 'quickstart/{batch_export_id}',
    aws_access_key_id: s3.accessKeyId,
    aws_secret_access_key: s3.secretAccessKey,
    endpoint_url: s3.endpoint,
    file_format: 'JSONLines',
    compression: 'gzip',
  };
  const listed = await api.call('get', 'batch_exports');
  const earlier = listed.results.find(
    ({ name, destination }) =>
      name === exportName && destination.config.endpoint_url === s3.endpoint,
  );
  if (earlier) return earlier;
  print('Creating an hourly JSONLines export to S3 over the API …');
  return api.call('post', 'batch_exports', {
    body: { name: exportName, interval: 'hour', destination: { type: 'S3', config } },
  });
}

async function backfill(
  { terminal, print }: QuickstartOptions,
  api: Api,
  exportId: string,
  end: number,
): Promise<void> {
  // If an earlier start was killed, its backfill continues, and there may be only one of a range.
  const path = { batch_export_id: exportId };
  const { results } = await api.call('get', 'batch_exports/{batch_export_id}/backfills', { path });
  const running = results.filter(({ status }) => status === 'Running');
  if (running.length > 0) print('Continuing the backfill of an earlier start …');
  for (const { id } of running) await showProgress(terminal, api, exportId, id);
  const started = await api.call('post', 'batch_exports/{id}/backfill', {
    path: { id: exportId },
    body: {
      start_at: toTimestamp(end - hours * hourMs),
      end_at: toTimestamp(end),
      concurrency: 4,
      // Others are there.
      ...(running.length > 0 && { reprocess: 'failed' as const }),
    },
  });
  if ('dry_run' in started || !started.backfill_id) throw new Error('no backfill was started');
  const say = () => print(`Backfilling ${hours} hours …`);
  await showProgress(terminal, api, exportId, started.backfill_id, say);
}

/** @param begin is called before the first progress. It is not if there is nothing to do. */
async function showProgress(
  terminal: Terminal,
  api: Api,
  exportId: string,
  id: string,
  begin = () => {},
): Promise<void> {
  const progress = createProgress(terminal);
  let begun = false;
  for (;;) {
    const backfill = await api.call('get', 'batch_exports/{batch_export_id}/backfills/{id}', {
      path: { batch_export_id: exportId, id },
    });
    if (backfill.total_runs > 0) {
      if (!begun) begin();
      begun = true;
      progress.show(backfill.progress, `${backfill.finished_runs} of ${backfill.total_runs} runs`);
    }
    if (backfill.status !== 'Running') break;
    await sleep(150);
  }
  progress.end();
}

type Run = AnswerOf<'get', 'batch_exports/{batch_export_id}/runs'>['results'][number];

function runTable(runs: readonly Run[], terminal: Terminal): readonly string[] {
  const rows = runs.map((run) => {
    const ms = Date.parse(run.finished_at ?? '') - Date.parse(run.started_at ?? run.created_at);
    const seconds = Math.max(ms / 1_000, 0.001);
    const records = run.records_completed ?? 0;
    return [
      `${run.data_interval_start?.slice(0, 16)}Z – ${run.data_interval_end.slice(11, 16)}Z`,
      run.status,
      count(records),
      count(run.bytes_exported),
      { text: seconds.toFixed(2), atEnd: true },
      count(Math.round(records / seconds)),
    ];
  });
  const head = ['interval', 'status', 'rows', 'bytes', 'seconds', 'rows/s'];
  return tableLines(head, rows, paintFor(terminal)).map((line) => `  ${line}`);
}

/** The tenant that the quickstart made, kept in the data directory for the next start. */
interface QuickstartTenant {
  readonly projectId: number;
  /** A key with all scopes; readable only by its owner, like the database's password. */
  readonly key: string;
  /** The key of an operator: metrics, queues and all organizations. */
  readonly operatorKey: string;
}

/** The organization, project and key of the last start, or new ones. */
async function ensureTenant(db: Database, dataDir: string): Promise<QuickstartTenant> {
  const path = join(dataDir, 'quickstart.json');
  const saved = await readFile(path, 'utf8').then(
    (text) => JSON.parse(text) as QuickstartTenant,
    () => null,
  );
  if (saved && (await findProject(db, saved.projectId))) return saved;
  const { id: organizationId } = await createOrganization(db, 'Quickstart');
  const project = await createProject(db, { organizationId, name: 'Quickstart' });
  const all = { projectIds: null, scopes: ['*'], expiresAt: null } as const;
  const issued = await issueKey(db, { ...all, organizationId, name: 'Quickstart' });
  const operator = await issueKey(db, {
    ...all,
    organizationId: null,
    name: 'Quickstart operator',
  });
  const tenant = { projectId: project.id, key: issued.key, operatorKey: operator.key };
  await writeFile(path, `${JSON.stringify(tenant)}\n`, { mode: 0o600 });
  return tenant;
}
