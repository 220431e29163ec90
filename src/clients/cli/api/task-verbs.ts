import { readList, readWholeNumber } from '../arguments.ts';
import { get, hidden, missingRows, post, theExport, type Verbs } from './verb.ts';

/** Verbs that are more than a request. */
export const taskVerbs: Verbs = {
  status: get('/readyz', {
    about: 'show what fails, what is late, the workers and the queue',
    flags: {
      all: ['--all', 'over all customers, with the key of an operator'],
      check: ['--check', 'exit with 1 if something needs attention'],
    },
    run: async (called) => (await import('./status.ts')).status(called),
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
      limit: ['--limit <n>', 'entries to begin with', { read: readWholeNumber, initial: 100 }],
      run_id: ['--run <id>', 'only those of this run'],
    },
    flags: { follow: ['-f, --follow', 'also show new entries until Ctrl-C'] },
    notFound:
      'There is no run {run_id} of this export. `sluice runs list {batch_export_id}` shows its runs.',
    at: (path, { run_id: run }) =>
      run === undefined ? path : 'batch_exports/{batch_export_id}/runs/{run_id}/logs',
    run: async (called) => (await import('./logs.ts')).logs(called),
  }),
  apply: hidden('post', 'batch_exports', {
    about: 'create and change exports, steps and notification targets until they are as in a file',
    flags: {
      file: [
        '-f, --file <path>',
        'YAML with a list named exports, and if you want transformations and notifications; - is standard input',
        { isRequired: true },
      ],
      dryRun: ['--dry-run', 'only show the differences'],
      prune: [
        '--prune',
        'delete exports of the project that the file does not have, and steps and targets if it lists others',
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
