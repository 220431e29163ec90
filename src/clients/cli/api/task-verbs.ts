import { readList, readWholeNumber } from '../arguments.ts';
import { type Called, get, hidden, missingRows, post, theExport, type Verbs } from './verb.ts';
import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import { print } from '../answer.ts';
import { CliError, misused } from '../deps.ts';
import {
  type Colour,
  cut,
  type Paint,
  plain,
  plural,
  shortName,
  shortTime,
  tableLines,
} from '../text.ts';
import { causeLines } from './cause-verbs.ts';
import { healthColours } from './export-text.ts';
import { listSummaries } from './find-export.ts';
import type { AnswerOf, ExportSummary, Health, LogEntry, Readiness } from './types.ts';
import { readSince } from './time-range.ts';

export const taskVerbs: Verbs = {
  status: get('/readyz', {
    about: 'show what fails, what is late, the workers and the queue',
    flags: {
      all: ['--all', 'over all customers, with the key of an operator'],
      check: ['--check', 'exit with 1 if something needs attention'],
    },
    run: status,
  }),
  backfill: post('batch_exports/{id}/backfill', {
    about: 'export a range of the past, and wait until it is done',
    args: { id: theExport },
    options: {
      reprocess: [
        '--reprocess <which>',
        'which intervals: all, those without data (failed), those without data that were asked for (missing), those that never ran (none) (default: all)',
        { choices: ['all', 'failed', 'missing', 'none'] },
      ],
      missing_rows: missingRows,
      concurrency: ['--concurrency <n>', 'maximum runs at a time', readWholeNumber],
    },
    flags: {
      from: [
        '--from <time>',
        'start, ISO 8601: 2024-03-01 or 2024-03-01T00:00:00Z (UTC if it has no offset)',
      ],
      to: ['--to <time>', 'end (exclusive); default: now'],
      last: [
        '--last <span>',
        'instead of --from and --to: the last hours or days, such as 6h, 2d or 90m',
      ],
      isDryRun: ['--dry-run', 'only show which runs it would make'],
      yes: ['--yes', 'drop missing rows without asking'],
      isNewestFirst: ['--newest-first', 'begin with the newest interval'],
      waits: ['--no-wait', 'return as soon as it has begun'],
    },
    writtenAs: {
      start_at: 'the start of the range (--from or --last)',
      end_at: 'the end of the range (--to or --last)',
    },
    run: async (called) => (await import('./backfill.ts')).backfill(called),
  }),
  logs: get('batch_exports/{batch_export_id}/logs', {
    about: 'show the newest log entries of an export',
    args: { batch_export_id: theExport },
    options: {
      level: ['--level <list>', 'only these, such as WARNING,ERROR', readList],
      after: [
        '--since <time>',
        'only newer ones: a span back such as 6h or 90m, or a time in ISO 8601',
      ],
      search: ['--search <text>', 'only those whose message contains this text'],
      limit: ['--limit <n>', 'entries to show', { read: readWholeNumber, initial: 100 }],
      run_id: ['--run <id>', 'only those of this run'],
    },
    notFound:
      'There is no run {run_id} of this export. `sluice runs list {batch_export_id}` shows its runs.',
    at: (path, { run_id: run }) =>
      run === undefined ? path : 'batch_exports/{batch_export_id}/runs/{run_id}/logs',
    run: logs,
  }),
  apply: hidden('post', 'batch_exports', {
    about: 'create and change exports and steps until they are as in a file',
    flags: {
      file: [
        '-f, --file <path>',
        'YAML with a list named exports, and if you want transformations; - is standard input',
        { isRequired: true },
      ],
      dryRun: ['--dry-run', 'only show the differences'],
      prune: [
        '--prune',
        'delete exports of the project that the file does not have, and steps if it lists others',
      ],
      secrets: ['--secrets', 'also send the secrets of exports that exist, after a rotation'],
      yes: ['--yes', 'delete without asking'],
    },
    run: async (called) => (await import('./apply.ts')).apply(called),
  }),
  export: get('batch_exports', {
    about: 'print the exports of the project as a file for apply',
    run: async (called) => (await import('./export-all.ts')).exportAll(called),
  }),
};

const namedExports = 8;

type Status = ReturnType<typeof summarize>;

/** `sluice status`: one screen that says what needs a person. */
async function status(called: Called): Promise<null> {
  const { deps, api, given, isJson, paint } = called;
  const service = await api.call('get', '/readyz', { accepts: 503 });
  if (given.all) return statusOfAll(called, service);
  const summary = summarize(api.url, service, await listSummaries(api));
  print(deps, { json: isJson }, summary, () => statusLines(summary, paint));
  const { failing, incomplete, late } = summary.exports;
  const isWell = service.status === 'ok' && failing + incomplete + late === 0;
  if (given.check && !isWell) throw new CliError('Something needs attention.');
  return null;
}

const shownCauses = 20;

/** Shows all customers: what is wrong is shown by its causes. */
async function statusOfAll(
  { deps, api, given, isJson, paint }: Called,
  service: Readiness,
): Promise<null> {
  const [causes, exports, customers] = await Promise.all([
    api.call('get', '/api/admin/causes', { query: { limit: shownCauses } }),
    api.call('get', '/api/admin/exports', { query: { limit: 1 } }),
    api.call('get', '/api/admin/causes', { query: { limit: 1, turn: 'customer' } }),
  ]);
  const summary = { url: api.url, service, exports: exports.count, causes: causes.results };
  print(deps, { json: isJson }, summary, () => [
    ...serviceLines(api.url, service, paint),
    `Exports   ${exports.count} of all customers`,
    ...causeLines(causes, { paint }),
  ]);
  // The screen has only the causes of the most exports.
  const isWell = service.status === 'ok' && causes.count === customers.count;
  if (given.check && !isWell) throw new CliError('Something needs the operator.');
  return null;
}

function serviceLines(url: string, service: Readiness, paint: Paint): string[] {
  const colour: Colour =
    service.status === 'ok' ? 'green' : service.status === 'degraded' ? 'yellow' : 'red';
  const faults = Object.entries(service.checks).filter(([, text]) => text !== 'ok');
  return [
    `Sluice    ${plain(url)}: ${paint(service.status, colour)}`,
    ...(Object.keys(service.checks).length > 0 && faults.length === 0
      ? [`Checks    ${Object.keys(service.checks).join(', ')}: ok`]
      : faults.map(([name, text]) => paint(`  ${name}: ${plain(text)}`, colour))),
  ];
}

/** `attention` has all that are not fine, the most urgent first. */
function summarize(url: string, service: Readiness, all: readonly ExportSummary[]) {
  const counts = Object.fromEntries(exportHealths.map((state) => [state, 0])) as Record<
    Health,
    number
  >;
  for (const { health } of all) counts[health] += 1;
  const live = all.flatMap(({ latest_runs: runs }) =>
    runs.filter((run) => run.status === 'Running' || run.status === 'Starting'),
  );
  const retrying = live.filter((run) => run.next_attempt_at !== null && run.attempt > 0).length;
  const waiting = live.filter((run) => run.attempt === 0).length;
  return {
    url,
    service,
    exports: counts,
    runs: { running: live.length - retrying - waiting, waiting, retrying },
    long_runs: all.flatMap(({ name, latest_runs: own }) =>
      own.flatMap(({ id, step }) =>
        step?.is_long
          ? [{ id, export: name, step: step.name, since: step.since, text: step.text }]
          : [],
      ),
    ),
    newest: all.flatMap(({ id, name, mode, latest_runs: own }) =>
      own
        // Not those that remove or erase files, and an older snapshot can be made again.
        .filter(({ status, purpose }) => status === 'Completed' && purpose === 'whole')
        .toSorted((a, b) => b.data_interval_end.localeCompare(a.data_interval_end))
        .slice(0, mode === 'append' ? 0 : 1)
        .map(({ element, data_interval_end }) => ({
          id,
          export: name,
          element,
          data_interval_end,
        })),
    ),
    attention: all
      .filter(({ health }) => health !== 'fine')
      .toSorted((a, b) => exportHealths.indexOf(a.health) - exportHealths.indexOf(b.health))
      .map((one) => ({
        id: one.id,
        name: one.name,
        state: one.health,
        // A retry alone does not help an export that is paused too.
        reason: `${one.paused && one.health !== 'paused' ? 'paused; ' : ''}${one.health_reason ?? ''}`,
        complete_up_to: one.high_water_mark,
      })),
  };
}

function statusLines(
  { url, service, exports, runs, newest, attention, long_runs }: Status,
  paint: Paint,
) {
  const counts = exportHealths
    .filter((state) => exports[state] > 0)
    .map((state) => paint(`${exports[state]} ${state}`, healthColours[state]));
  const rows = exportHealths.flatMap((state) => {
    const those = attention.filter((one) => one.state === state);
    const shown = those
      .slice(0, namedExports)
      .map(({ name, reason, complete_up_to: upTo }) => [
        { text: state, colour: healthColours[state] },
        shortName(name),
        shortTime(upTo),
        cut(reason, 100),
      ]);
    const more = those.length - shown.length;
    return more > 0 ? [...shown, [`and ${more} more ${state}`]] : shown;
  });
  return [
    ...serviceLines(url, service, paint),
    `Exports   ${counts.length > 0 ? counts.join(' · ') : 'none'}`,
    `Runs      ${runs.running} running · ${runs.waiting} waiting · ${runs.retrying} retrying`,
    ...long_runs
      .slice(0, namedExports)
      .map((one) => paint(`  ${shortName(plain(one.export))}: ${plain(one.text)}`, 'yellow')),
    ...newest.slice(0, namedExports).map(({ export: name, element, data_interval_end: upTo }) => {
      const what =
        element === null
          ? 'snapshot'
          : `${element.base === null ? 'element' : 'base'} ${element.number}`;
      return `  ${shortName(plain(name))}: ${what}, up to ${shortTime(upTo)}`;
    }),
    ...(rows.length > 0
      ? ['', ...tableLines(['STATE', 'EXPORT', 'COMPLETE UP TO', 'REASON'], rows, paint)]
      : [
          exports.fine === 0
            ? 'Nothing needs attention: no exports yet.'
            : `Nothing needs attention: ${plural(exports.fine, 'export')} fine.`,
        ]),
  ];
}

const mostEntries = 1_000;

/** `sluice logs`: the latest entries, oldest first. */
async function logs({ deps, api, given, isJson, paint, send }: Called<Page>): Promise<null> {
  const limit = Number(given.limit);
  if (limit < 1 || limit > mostEntries) throw misused(`--limit must be 1 to ${mostEntries}.`);
  const after =
    typeof given.after === 'string' ? readSince(api, '--since', given.after) : undefined;
  const { results } = await send({ after });
  for (const entry of results.toReversed()) {
    deps.print(isJson ? JSON.stringify(entry) : lineOf(entry, paint));
  }
  if (results.length === 0 && !isJson) deps.print('No log entries.');
  return null;
}

type Page = AnswerOf<'get', 'batch_exports/{batch_export_id}/logs'>;

const colours: Partial<Record<LogEntry['level'], Colour>> = {
  ERROR: 'red',
  WARNING: 'yellow',
  DEBUG: 'dim',
};

function lineOf({ timestamp, level, message }: LogEntry, paint: Paint): string {
  const text = `${shortTime(timestamp)}  ${level.padEnd(7)}  ${plain(message)}`;
  const colour = colours[level];
  return colour ? paint(text, colour) : text;
}
