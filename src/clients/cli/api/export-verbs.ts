import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import { print } from '../answer.ts';
import { readWholeNumber } from '../arguments.ts';
import { CliError, misused } from '../deps.ts';
import { cut, plain, plural, shortTime, tableLines } from '../text.ts';
import { quoted } from './api.ts';
import { detailLines, exportLines, testLines } from './export-text.ts';
import { type Json, textOf } from './json.ts';
import type { AnswerOf, BatchExport } from './types.ts';
import {
  type Called,
  type Field,
  get,
  list,
  maybeExport,
  patch,
  post,
  remove,
  theExport,
  type Verbs,
  yes,
} from './verb.ts';

const oneExport = 'batch_exports/{id}';
const details = (shown: BatchExport, { paint }: Called) => detailLines(shown, paint);

const spec: Readonly<Record<string, Field>> = {
  file: ['-f, --file <path>', 'YAML or JSON with the fields of the export; - is standard input'],
  set: [
    '--set <field=value>',
    'a field, such as interval=day or destination.config.prefix=events; may be repeated',
    (text, before: readonly string[] = []) => [...before, text],
  ],
};

/** The fields of a file and of `--set`. */
async function readBody({ api, deps, given }: Called, stored?: BatchExport | null) {
  const { readFields } = await import('./export-fields.ts');
  const { readSpec } = await import('./export-spec.ts');
  const fields = await readFields(api);
  return { fields, body: await readSpec(deps.terminal, given, fields, stored?.destination) };
}

const isSaved = ({ file, set }: Json): boolean => file === undefined && set === undefined;

/** The export to try: a saved one (its body is empty), a change of one, or one that does not exist yet. */
async function readUnsaved(called: Called): Promise<Json> {
  if (!isSaved(called.given)) {
    return (await readBody(called, called.given.id === undefined ? null : called.batchExport)).body;
  }
  if (called.given.id !== undefined) return {};
  throw misused('Name an export, or use --file or --set.');
}

export const exportVerbs: Verbs = {
  'exports list': list('batch_exports', {
    about: 'list the exports of the project',
    options: {
      health: [
        '--state <state>',
        'only those that are failing, incomplete, late, paused or fine',
        { choices: exportHealths },
      ],
    },
    list: 'all',
    lines: (exports, { paint }) => exportLines(exports, paint),
  }),
  'exports get': get(oneExport, {
    about: 'show an export',
    args: { id: theExport },
    run: async ({ batchExport }) => batchExport,
    lines: details,
  }),
  'exports create': post('batch_exports', {
    about: 'create an export',
    flags: spec,
    async run(called) {
      const { fields, body } = await readBody(called);
      // The commands find exports by name, and a script that runs again must not make a second one.
      const isUnique = fields.onlyCreate.includes('unique_name');
      return called.send(isUnique ? { unique_name: true, ...body } : body);
    },
    lines: details,
  }),
  'exports update': patch(oneExport, {
    about: 'change fields of an export; the others keep their values',
    args: { id: theExport },
    flags: spec,
    run: async (called) => called.send((await readBody(called, called.batchExport)).body),
    lines: details,
  }),
  'exports run': post(`${oneExport}/run_now`, {
    about:
      'export each interval up to now that has no data (without a past, only the newest), or say why not',
    args: { id: theExport },
    lines: ({ backfill_id: id, total_runs: runs, reason }) => [
      reason ?? `Backfill ${id} has begun: ${plural(runs, 'run')}.`,
    ],
  }),
  'exports pause': post(`${oneExport}/pause`, {
    about: 'pause an export; live runs finish',
    args: { id: theExport },
    lines: ({ name }) => [`Paused ${quoted(name)}. Live runs finish.`],
  }),
  'exports unpause': post(`${oneExport}/unpause`, {
    about: 'unpause an export',
    args: { id: theExport },
    options: {
      backfill: ['--backfill', 'also export the intervals that were missed in the pause'],
      retry_missing: ['--retry-missing', 'also export the requested intervals that have no data'],
    },
    flags: { isDryRun: ['--dry-run', 'only show how many intervals these are'] },
    run: unpause,
  }),
  'exports delete': remove(oneExport, {
    about: 'delete an export and cancel its live runs; its files stay in the bucket',
    args: { id: theExport },
    flags: { yes },
    confirm: ({ batchExport: { name, id } }) => `Delete the export ${quoted(name)} (${id})?`,
    json: (_, { given }) => ({ id: given.id, deleted: true }),
    lines: (_, { batchExport }) => [
      `Deleted ${quoted(batchExport.name)}. Its files stay in the bucket.`,
    ],
  }),
  'exports test': post(`${oneExport}/test`, {
    about: 'try a destination step by step; exits with 1 if a step fails',
    args: { id: maybeExport },
    flags: spec,
    at: (path, { id }) => (id === undefined ? 'batch_exports/test' : path),
    // Each step of the destination has a time limit of the service's own.
    patienceMs: 180_000,
    run: async (called) => called.send(await readUnsaved(called)),
    lines: (tested, { paint }) => testLines(tested, paint),
    failure: ({ passed }) => (passed ? null : 'The test of the destination failed.'),
  }),
  'exports preview': post('batch_exports/preview', {
    about: 'show up to 100 rows as the export would write them',
    args: { id: maybeExport },
    flags: {
      ...spec,
      limit: ['--limit <n>', 'rows to show', { read: readWholeNumber, initial: 10 }],
    },
    patienceMs: 90_000,
    async run(called) {
      const { id, limit } = called.given;
      const body = await readUnsaved(called);
      const answer = await called.send({
        ...body,
        limit: Math.min(Math.max(Number(limit), 1), 100),
        ...(id !== undefined && { id }),
      });
      // In the order of a run: the newest rows are the last.
      return { ...answer, rows: limit === 0 ? [] : answer.rows.slice(-Number(limit)) };
    },
    json: ({ columns, rows, left_out }) => ({ columns, rows, left_out }),
    lines: ({ columns, rows, left_out: leftOut }, { paint }) => [
      ...(rows.length === 0
        ? ['No rows.']
        : tableLines(
            columns.map((column) => plain(column.name)),
            rows.map((row) => row.map((value) => cut(textOf(value), 60))),
            paint,
          )),
      ...(leftOut === null ? [] : [leftOut]),
    ],
  }),
};

/** An unpause leaves out what its options do not ask for, and says so. */
async function unpause(called: Called<Unpaused>): Promise<null> {
  const { deps, api, given, batchExport, isJson, send } = called;
  const preview = await send({ backfill: undefined, retry_missing: undefined, dry_run: true });
  if (!('dry_run' in preview)) throw new CliError(`${api.url} did not preview the unpause.`);
  if (given.isDryRun) {
    print(deps, { json: isJson }, preview, () => [
      `${plural(preview.missed_intervals, 'interval')} missed while paused (--backfill exports them).`,
      `${missingText(preview)} (--retry-missing exports them).`,
      'Nothing was changed (--dry-run).',
    ]);
    return null;
  }
  const { backfill = false, retry_missing: retryMissing = false } = given;
  const after = await send({ backfill, retry_missing: retryMissing });
  if ('dry_run' in after) throw new CliError(`${api.url} did not unpause the export.`);
  const { since } = preview.missing;
  print(deps, { json: isJson }, after, () => [
    batchExport.paused
      ? `Unpaused ${quoted(after.name)}. Next run: ${after.next_run_at ?? 'none'}.`
      : `${quoted(after.name)} was not paused: nothing was changed.`,
    ...(after.backfill_id
      ? [`${plural(after.backfill_total_runs ?? 0, 'run')} in backfill ${after.backfill_id}.`]
      : []),
    ...(backfill ? [] : preview.missed.map((range) => leftOutLine(after.name, range))),
    // An export that is not paused starts nothing.
    ...((retryMissing && batchExport.paused) || since === null
      ? []
      : [
          `${missingText(preview)}. Export them: \`sluice backfill ${quoted(after.name)} --from ${shortTime(since)} --reprocess missing\``,
        ]),
  ]);
  return null;
}

type Unpaused = AnswerOf<'post', 'batch_exports/{id}/unpause'>;
type LeftOut = Extract<Unpaused, { dry_run: true }>;

const missingText = ({ missing: { count, since } }: LeftOut) =>
  `${plural(count, 'requested interval')} without data${since === null ? '' : ` since ${shortTime(since)}`}`;

const leftOutLine = (name: string, { start, end }: LeftOut['missed'][number]) =>
  `Not exported, because it was paused: ${shortTime(start)} to ${shortTime(end)}. Export it: \`sluice backfill ${quoted(name)} --from ${shortTime(start)} --to ${shortTime(end)}\``;
