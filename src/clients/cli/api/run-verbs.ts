import { readCount, readList } from '../arguments.ts';
import { CliError } from '../deps.ts';
import { count, shortTime, tableLines } from '../text.ts';
import { runLines } from './export-text.ts';
import type { Json } from './json.ts';
import type { AnswerOf } from './types.ts';
import { type Called, get, list, missingRows, post, theExport, type Verbs } from './verb.ts';

const oneRun = 'batch_exports/{batch_export_id}/runs/{id}';
const ofRun = {
  args: { batch_export_id: theExport, id: ['<run>', 'id of the run'] },
  notFound:
    'There is no run {id} of this export. `sluice runs list {batch_export_id}` shows its runs.',
} as const;

export const runVerbs: Verbs = {
  'runs list': list('batch_exports/{batch_export_id}/runs', {
    about: 'list runs, newest first',
    args: { batch_export_id: theExport },
    options: {
      status: [
        '--status <list>',
        'only these, such as Failed,FailedRetryable, or Retrying',
        readList,
      ],
      limit: ['--limit <n>', 'runs to show', { read: readCount, initial: 20 }],
    },
    list: 'newest',
    lines: (runs, { paint }) => runLines(runs, paint),
  }),
  'runs retry': post(`${oneRun}/retry`, {
    about: "run an ended run's interval again, as a new run",
    ...ofRun,
    options: { missing_rows: missingRows },
    flags: { yes: ['--yes', 'drop missing rows without asking'] },
    async run(called) {
      if (called.given.missing_rows === 'drop') await confirmDrop(called);
      return called.send();
    },
    lines: (made) => [
      `Run ${made.id} exports ${shortTime(made.data_interval_start)} to ${shortTime(made.data_interval_end)} again.`,
    ],
  }),
  'runs cancel': post(`${oneRun}/cancel`, {
    about: 'cancel a run that has not ended',
    ...ofRun,
    json: (_, { given }) => ({ id: given.id, cancelled: true }),
    lines: (_, { given }) => [`Cancelled run ${given.id}.`],
  }),
  'runs files': get(`${oneRun}/files`, {
    about: 'list the files of a run, with their sizes and SHA-256',
    ...ofRun,
    async run({ send }) {
      const first = await send({ limit: 1_000 });
      const results = [...first.results];
      while (results.length < first.count) {
        const page = await send({ limit: 1_000, offset: results.length });
        if (page.results.length === 0) break;
        results.push(...page.results);
      }
      return { ...first, results };
    },
    json: ({ results: files, manifest, current_run }) => ({ files, manifest, current_run }),
    lines: fileLines,
  }),
  'runs link': post(`${oneRun}/link`, {
    about: 'print a link that reads a file of a run for a few minutes',
    ...ofRun,
    options: {
      key: ['--key <key>', 'key of the file or manifest (default: the only file of the run)'],
      expires_in_seconds: ['--expires <seconds>', 'how long, 10 to 3600 (default: 300)', readCount],
    },
    prepare: async ({ api, given }) => ({
      ...given,
      key: given.key ?? (await onlyKey(api, given)),
    }),
    lines: ({ url }) => [url],
  }),
};

async function onlyKey(api: Called['api'], given: Json): Promise<string> {
  const { notFound } = ofRun;
  const files = await api.call('get', `${oneRun}/files`, {
    path: given,
    query: { limit: 1 },
    notFound,
  });
  const [file] = files.results;
  if (file !== undefined && files.count === 1) return file.key;
  const listFiles = `sluice runs files ${given.batch_export_id} ${given.id}`;
  throw new CliError(
    file === undefined
      ? `The run has no current files. \`${listFiles}\` says why.`
      : `The run has ${files.count} files: choose one with --key. \`${listFiles}\` lists them.`,
  );
}

async function confirmDrop({ api, deps, given, batchExport }: Called): Promise<void> {
  const run = await api.call('get', oneRun, { path: given, notFound: ofRun.notFound });
  const preview = await api.call('post', 'batch_exports/{id}/backfill', {
    path: { id: batchExport.id },
    body: { start_at: run.data_interval_start, end_at: run.data_interval_end, dry_run: true },
  });
  const { confirmRemoval } = await import('./backfill.ts');
  if ('dry_run' in preview) await confirmRemoval(deps, preview, given.yes === true);
}

type Files = AnswerOf<'get', 'batch_exports/{batch_export_id}/runs/{id}/files'>;

function fileLines(
  { results, manifest, current_run: current }: Files,
  { given: { id }, paint }: { readonly given: Json; readonly paint: Called['paint'] },
): readonly string[] {
  if (results.length === 0) {
    if (current === null) return ['No files: the interval is not exported.'];
    return current === id
      ? ['No files: the interval has no rows.']
      : [`No files: run ${current} has replaced them.`];
  }
  const rows = results.map(({ uri, key, rows: number, bytes, sha256, rejected }) => [
    `${uri ?? key}${rejected ? ' (rejected rows)' : ''}`,
    count(number),
    count(bytes),
    sha256,
  ]);
  return [
    ...tableLines(['FILE', 'ROWS', 'BYTES', 'SHA-256'], rows, paint),
    ...(manifest === null ? [] : [`Manifest: ${manifest.uri ?? manifest.key}`]),
    ...(current === id ? [] : [`Run ${current} has added rows since, in further files.`]),
  ];
}
