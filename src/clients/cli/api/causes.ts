import { Argument, type Command, Option } from 'commander';
import {
  type OperatorAction as Action,
  operatorActions,
  turns,
} from '../../../foundation/domain/causes.ts';
import { type CliDeps, CliError, exitCodes } from '../deps.ts';
import { paintFor, plain, plural, shortName, shortTime, tableLines } from '../text.ts';
import { confirm } from './confirm.ts';
import { print } from './print.ts';
import { type Api, readAll } from './api.ts';
import { type ApiOptions, openApi, withApi } from './open-api.ts';
import { createProgress } from './progress.ts';
import type { Cause, OperatorExport } from './types.ts';

interface SearchOptions extends ApiOptions {
  readonly customer?: string;
  readonly turn?: Cause['turn'];
}

interface ActOptions extends ApiOptions {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** What a screen lists. */
const listed = 200;

/** `sluice causes …`: what is wrong over all customers, with the key of an operator. */
export function registerCauses(program: Command, deps: CliDeps): void {
  const causes = program
    .command('causes')
    .description('what keeps exports of all customers from their data (the key of an operator)');
  const turn = () => new Option('--turn <who>', 'only what they must fix').choices([...turns]);
  const customer = 'part of the name of an organization or project, its id, or a tenant key';

  withApi(causes.command('list', { isDefault: true }).description('list the causes, the default'))
    .option('--customer <text>', customer)
    .addOption(turn())
    .action((options: SearchOptions) => listCauses(deps, options));

  withApi(causes.command('exports').description('list the exports of a cause, or of all customers'))
    .argument('[cause]', 'the id of the cause')
    .option('--customer <text>', customer)
    .addOption(turn())
    .action((cause: string | undefined, options: SearchOptions) =>
      listExports(deps, cause, options),
    );

  for (const action of operatorActions) {
    withApi(causes.command(action).description(descriptions[action]))
      .addArgument(new Argument('<cause>', 'the id of the cause'))
      .option('--dry-run', 'only print how much it would be')
      .option('--yes', 'do not ask')
      .action((cause: string, options: ActOptions) => act(deps, action, cause, options));
  }
}

const descriptions: Readonly<Record<Action, string>> = {
  probe: 'export one interval of one export again, which shows whether the cause is over',
  retry: 'export all intervals without data again; exports that Sluice paused continue',
  pause: 'pause all exports of the cause',
};

const optionOf = { search: '--customer', turn: '--turn' };

const searchOf = ({ customer, turn }: SearchOptions) => ({
  ...(customer && { search: customer }),
  ...(turn && { turn }),
});

async function listCauses(deps: CliDeps, options: SearchOptions): Promise<void> {
  const query = { limit: listed, ...searchOf(options) };
  const found = await openApi(deps, options).callAdmin('get', '/causes', {
    query,
    optionOf,
  });
  print(deps, options, found.results, () => causeLines(deps, found.results, found.count));
}

/** @param count of all causes */
export function causeLines(
  deps: CliDeps,
  causes: readonly Cause[],
  count: number,
): readonly string[] {
  if (causes.length === 0) return ['Nothing is wrong: no export has a cause.'];
  const rows = causes.map((cause) => [
    cause.id,
    { text: cause.turn, colour: turnColours[cause.turn] },
    cause.code,
    shortName(cause.organization_name ?? '') || plural(cause.organizations, 'customer'),
    plural(cause.exports, 'export'),
    String(cause.missing_intervals),
    shortTime(cause.since),
    shortTime(cause.next_probe_at),
    cause.place,
  ]);
  const head = 'CAUSE TURN CODE CUSTOMER EXPORTS MISSING SINCE PROBE PLACE'.split(' ');
  const more = count > causes.length ? [`and ${count - causes.length} more`] : [];
  return [...tableLines(head, rows, paintFor(deps.terminal)), ...more];
}

const turnColours = { ours: 'red', source: 'yellow', customer: 'dim' } as const;

const noSuchCause = 'There is no such cause any more. `sluice causes` lists those that there are.';

async function listExports(
  deps: CliDeps,
  cause: string | undefined,
  options: SearchOptions,
): Promise<void> {
  const query = { limit: listed, ...searchOf(options), ...(cause && { cause_id: cause }) };
  const found = await openApi(deps, options).callAdmin('get', '/exports', {
    query,
    optionOf: { ...optionOf, cause_id: '<cause>' },
  });
  const { customer, turn } = options;
  if (cause && found.count === 0 && customer === undefined && turn === undefined) {
    throw new CliError(noSuchCause);
  }
  print(deps, options, found.results, () => exportLines(deps, found.results, found.count));
}

export function exportLines(
  deps: CliDeps,
  exports: readonly OperatorExport[],
  count: number,
): readonly string[] {
  if (exports.length === 0) return ['none'];
  const rows = exports.map((one) => [
    one.health,
    shortName(one.organization_name),
    shortName(one.project_name),
    shortName(one.name),
    one.id,
    one.code ?? '-',
    String(one.missing_intervals),
    shortTime(one.high_water_mark),
  ]);
  const head = [...'STATE CUSTOMER PROJECT EXPORT ID CODE MISSING'.split(' '), 'COMPLETE UP TO'];
  const more = count > exports.length ? [`and ${count - exports.length} more`] : [];
  return [...tableLines(head, rows, paintFor(deps.terminal)), ...more];
}

async function act(
  deps: CliDeps,
  action: Action,
  cause: string,
  options: ActOptions,
): Promise<void> {
  const api = openApi(deps, options);
  const all = await readAll((offset) =>
    api.callAdmin('get', '/exports', { query: { cause_id: cause, limit: 1_000, offset } }),
  );
  const exports = action === 'probe' ? all.slice(0, 1) : all;
  if (exports.length === 0) throw new CliError(noSuchCause);
  const summary = summaryOf(action, exports);
  if (options.dryRun) {
    const preview = { action, dry_run: true, exports: exports.map(({ id }) => id) };
    print(deps, options, preview, () => [summary]);
    return;
  }
  await confirm(deps.terminal, `${summary}. Start?`, options.yes ?? false);
  const progress = createProgress(deps.terminal);
  const acted: Acted[] = [];
  for (const { id, name } of exports) {
    acted.push({ id, ...(await actOn(api, id, action)) });
    progress.show(acted.length / exports.length, plain(shortName(name)));
  }
  progress.end();
  print(deps, options, acted, () => actedLines(action, acted));
  const failed = acted.filter(({ error }) => error !== null);
  if (failed.length === 0) return;
  const rest = `${plural(failed.length, 'export')} not done. Run the command again: what is done is not done twice.`;
  throw new CliError(`${rest} The last error: ${failed.at(-1)?.error}`);
}

/** How much it is. */
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
    const answer = await api.callAdmin('post', '/exports/{export_id}/act', {
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
