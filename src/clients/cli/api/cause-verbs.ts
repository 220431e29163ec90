import { type OperatorAction as Action, turns } from '../../../foundation/domain/causes.ts';
import { confirm, print } from '../answer.ts';
import { CliError, exitCodes } from '../deps.ts';
import { type Cell, plain, plural, shortName, shortTime } from '../text.ts';
import { type Api, readAll } from './api.ts';
import type { Cause, OperatorExport } from './types.ts';
import { type Called, type Field, get, hidden, tableOf, type Verbs, yes } from './verb.ts';

const sends = { limit: 200 };
const search: Readonly<Record<string, Field>> = {
  search: [
    '--customer <text>',
    'part of the name of an organization or project, its id, or a tenant key',
  ],
  turn: ['--turn <who>', 'only what they must fix', { choices: turns }],
};

/** A table of the first results, and how many more there are. */
function pageOf<Item>(
  none: string,
  head: readonly string[],
  cells: (item: Item) => readonly (Cell | string)[],
) {
  const table = tableOf(none, head, cells);
  return (
    { results, count }: { readonly results: readonly Item[]; readonly count: number },
    called: Pick<Called, 'paint'>,
  ) => [
    ...table(results, called),
    ...(count > results.length ? [`and ${count - results.length} more`] : []),
  ];
}

const turnColours = { ours: 'red', source: 'yellow', customer: 'dim' } as const;

export const causeLines = pageOf<Cause>(
  'Nothing is wrong: no export has a cause.',
  'CAUSE TURN CODE CUSTOMER EXPORTS MISSING SINCE PROBE PLACE'.split(' '),
  (cause) => [
    cause.id,
    { text: cause.turn, colour: turnColours[cause.turn] },
    cause.code,
    shortName(cause.organization_name ?? '') || plural(cause.organizations, 'customer'),
    plural(cause.exports, 'export'),
    String(cause.missing_intervals),
    shortTime(cause.since),
    shortTime(cause.next_probe_at),
    cause.place,
  ],
);

const exportLines = pageOf<OperatorExport>(
  'none',
  [...'STATE CUSTOMER PROJECT EXPORT ID CODE MISSING'.split(' '), 'COMPLETE UP TO'],
  (one) => [
    one.health,
    shortName(one.organization_name),
    shortName(one.project_name),
    shortName(one.name),
    one.id,
    one.code ?? '-',
    String(one.missing_intervals),
    shortTime(one.high_water_mark),
  ],
);

const noSuchCause = 'There is no such cause any more. `sluice causes` lists those that there are.';
const acting = (action: Action, about: string) =>
  hidden('post', '/api/admin/exports', {
    about,
    args: { cause: ['<cause>', 'the id of the cause'] },
    flags: { isDryRun: ['--dry-run', 'only print how much it would be'], yes },
    run: (called) => act(action, called),
  });

export const causeVerbs: Verbs = {
  'causes list': get('/api/admin/causes', {
    about: 'list the causes, the default',
    isDefault: true,
    options: search,
    sends,
    lines: causeLines,
  }),
  'causes exports': get('/api/admin/exports', {
    about: 'list the exports of a cause, or of all customers',
    args: { cause_id: ['[cause]', 'the id of the cause'] },
    options: search,
    sends,
    async run({ given: { cause_id: cause, search: customer, turn }, send }) {
      const page = await send();
      const isGone = cause !== undefined && page.count === 0;
      if (isGone && customer === undefined && turn === undefined) throw new CliError(noSuchCause);
      return page;
    },
    lines: exportLines,
  }),
  'causes probe': acting(
    'probe',
    'export one interval of one export again, which shows whether the cause is over',
  ),
  'causes retry': acting(
    'retry',
    'export all intervals without data again; exports that Sluice paused continue',
  ),
  'causes pause': acting('pause', 'pause all exports of the cause'),
};

async function act(action: Action, { deps, api, given, isJson }: Called): Promise<null> {
  const all = await readAll((offset) =>
    api.call('get', '/api/admin/exports', {
      query: { cause_id: String(given.cause), limit: 1_000, offset },
    }),
  );
  const exports = action === 'probe' ? all.slice(0, 1) : all;
  if (exports.length === 0) throw new CliError(noSuchCause);
  const summary = summaryOf(action, exports);
  if (given.isDryRun) {
    const preview = { action, dry_run: true, exports: exports.map(({ id }) => id) };
    print(deps, { json: isJson }, preview, () => [summary]);
    return null;
  }
  await confirm(deps.terminal, `${summary}. Start?`, given.yes === true);
  const { createProgress } = await import('./progress.ts');
  const progress = createProgress(deps.terminal);
  const acted: Acted[] = [];
  for (const { id, name } of exports) {
    acted.push({ id, ...(await actOn(api, id, action)) });
    progress.show(acted.length / exports.length, plain(shortName(name)));
  }
  progress.end();
  print(deps, { json: isJson }, acted, () => actedLines(action, acted));
  const failed = acted.filter(({ error }) => error !== null);
  if (failed.length === 0) return null;
  const rest = `${plural(failed.length, 'export')} not done. Run the command again: what is done is not done twice.`;
  throw new CliError(`${rest} The last error: ${failed.at(-1)?.error}`);
}

function summaryOf(action: Action, exports: readonly OperatorExport[]): string {
  const customers = new Set(exports.map((one) => one.organization_id)).size;
  const missing = exports.reduce((sum, one) => sum + one.missing_intervals, 0);
  const least = action === 'probe' ? Math.min(1, missing) : missing;
  const pausedCount = exports.filter(({ paused }) => paused).length;
  const paused =
    action === 'retry' && pausedCount > 0
      ? `. ${plural(pausedCount, 'paused export')} of them continue, and also export what the pause missed`
      : '';
  // A pause exports none.
  const without = action === 'pause' ? '' : `, ${plural(least, 'interval')} without data`;
  return `${action}: ${plural(exports.length, 'export')} of ${plural(customers, 'customer')}${without}${paused}`;
}

interface Acted {
  readonly id: string;
  /** Why nothing was done to it; null: it was, or it failed. */
  readonly passedOver: string | null;
  readonly error: string | null;
}

/** One that fails does not keep the others from their turn. */
async function actOn(api: Api, id: string, action: Action): Promise<Omit<Acted, 'id'>> {
  try {
    const answer = await api.call('post', '/api/admin/exports/{export_id}/act', {
      path: { export_id: id },
      body: { action },
      notFound: 'The export is gone.',
    });
    return { passedOver: answer.passed_over, error: null };
  } catch (error) {
    const isOurs = error instanceof CliError && error.exitCode === exitCodes.failed;
    if (!isOurs) throw error;
    return { passedOver: null, error: error.message };
  }
}

function actedLines(action: Action, acted: readonly Acted[]): readonly string[] {
  const done = acted.filter((one) => one.passedOver === null && one.error === null).length;
  const reasons = new Map<string, number>();
  for (const { passedOver: reason } of acted) {
    if (reason !== null) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  }
  const skipped = [...reasons].map(
    ([reason, count]) => `passed over ${plural(count, 'export')}: ${plain(reason)}`,
  );
  return [`${action}: ${done} of ${plural(acted.length, 'export')}`, ...skipped];
}
