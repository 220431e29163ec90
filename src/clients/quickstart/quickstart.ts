import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../foundation/config/config.ts';
import { toTimestamp } from '../../foundation/domain/time.ts';
import type { Foundation } from '../../main/foundation.ts';
import { writableSourceUrl } from '../../main/models.ts';
import { verifyInstallation } from '../../main/verify.ts';
import { countEvents, generateEvents } from '../../rows/sources/index.ts';
import { readNow } from '../../state/store/intervals/ticks.ts';
import { type Api, connectApi } from '../cli/api/api.ts';
import { createProgress } from '../cli/api/progress.ts';
import type { AnswerOf } from '../cli/api/types.ts';
import type { Terminal } from '../cli/deps.ts';
import { count, paintFor, tableLines } from '../cli/text.ts';
import type { QuickstartS3 } from './local-s3.ts';
import type { QuickstartTenant } from './tenant.ts';

const hourMs = 3_600_000;
const hours = 24;

const exportName = 'Quickstart: events to S3, hourly';

export interface QuickstartOptions {
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
  readonly terminal: Terminal;
  readonly print: (line: string) => void;
}

/**
 * Shows the main job on real rows: events, an hourly export over the API, a backfill of a day, its runs,
 * and the proof.
 *
 * @returns whether everything was proven
 */
export async function quickstart(options: QuickstartOptions): Promise<boolean> {
  const { foundation, address, tenant } = options;
  const api = connectApi({
    ...{ url: address, key: tenant.key, project: String(tenant.projectId) },
    signal: new AbortController().signal,
    onWait: (seconds) => options.print(`The API asks to wait for ${seconds} seconds …`),
  });
  const end = Math.floor((await readNow(foundation.db)) / hourMs) * hourMs;
  await ensureEvents(options, { start: end - hours * hourMs, end });
  return showExport(options, api, end);
}

async function showExport(options: QuickstartOptions, api: Api, end: number): Promise<boolean> {
  const { terminal, print } = options;
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
  options: QuickstartOptions,
  api: Api,
): Promise<{ readonly id: string }> {
  const { s3, print } = options;
  const config = {
    bucket_name: s3.bucket,
    region: 'us-east-1',
    prefix: 'quickstart/{batch_export_id}',
    aws_access_key_id: s3.accessKeyId,
    aws_secret_access_key: s3.secretAccessKey,
    endpoint_url: s3.endpoint,
    file_format: 'JSONLines' as const,
    compression: 'gzip' as const,
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
