import { Argument, type Command, Option } from 'commander';
import { turns } from '../../../foundation/domain/causes.ts';
import { taskActions } from '../../../foundation/domain/operator-task.ts';
import { type CliDeps, CliError } from '../deps.ts';
import { paintFor, plain, plural, shortName, shortTime, tableLines } from '../text.ts';
import { confirm } from './confirm.ts';
import { print } from './print.ts';
import { type ApiOptions, openApi, withApi } from './open-api.ts';
import type { Cause, OperatorExport, OperatorTask } from './types.ts';

interface SearchOptions extends ApiOptions {
  readonly customer?: string;
  readonly turn?: Cause['turn'];
}

interface ActOptions extends ApiOptions {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

type Action = OperatorTask['action'];

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

  for (const action of taskActions) {
    withApi(causes.command(action).description(descriptions[action]))
      .addArgument(new Argument('<cause>', 'the id of the cause'))
      .option('--dry-run', 'only print how much it would be')
      .option('--yes', 'do not ask')
      .action((cause: string, options: ActOptions) => act(deps, action, cause, options));
  }

  withApi(
    causes.command('tasks').description('list what operators have started, and its progress'),
  ).action(async (options: ApiOptions) => {
    const { results } = await openApi(deps, options).callAdmin('get', '/tasks');
    print(deps, options, results, () => taskLines(deps, results));
  });
  withApi(
    causes.command('cancel').description('cancel a task: its runs end, and the rest is left alone'),
  )
    .argument('<task>', 'the id of the task')
    .action(async (task: string, options: ApiOptions) => {
      const path = { task_id: task };
      const api = openApi(deps, options);
      const cancelled = await api.callAdmin('post', '/tasks/{task_id}/cancel', {
        path,
        notFound: 'There is no such task. `sluice causes tasks` lists them.',
      });
      print(deps, options, cancelled, () => taskLines(deps, [cancelled]));
    });
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
  const head = [
    'CAUSE',
    'TURN',
    'CODE',
    'CUSTOMER',
    'EXPORTS',
    'MISSING',
    'SINCE',
    'PROBE',
    'PLACE',
  ];
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
  const head = [
    'STATE',
    'CUSTOMER',
    'PROJECT',
    'EXPORT',
    'ID',
    'CODE',
    'MISSING',
    'COMPLETE UP TO',
  ];
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
  const path = { cause_id: cause };
  const ask = (body: object) =>
    api.callAdmin('post', '/causes/{cause_id}/tasks', { path, body, notFound: noSuchCause });
  const preview = await ask({ action, dry_run: true });
  if (!('dry_run' in preview)) throw new CliError('The service did not answer with a dry run.');
  const missing = plural(preview.missing_intervals, 'interval');
  const whose = `${plural(preview.exports, 'export')} of ${plural(preview.organizations, 'customer')}`;
  const paused =
    preview.paused_exports > 0
      ? `. ${plural(preview.paused_exports, 'paused export')} of them continue, and also export what the pause missed`
      : '';
  // A pause exports none.
  const summary = `${action}: ${whose}${action === 'pause' ? '' : `, ${missing} without data`}${paused}`;
  if (options.dryRun) {
    print(deps, options, preview, () => [summary]);
    return;
  }
  await confirm(deps.terminal, `${summary}. Start?`, options.yes ?? false);
  const task = await ask({ action });
  if (!('status' in task)) throw new CliError('The service did not start the task.');
  print(deps, options, task, () => [
    ...taskLines(deps, [task]),
    `\`sluice causes tasks\` shows its progress, \`sluice causes cancel ${task.id}\` stops it.`,
  ]);
}

function taskLines(deps: CliDeps, tasks: readonly OperatorTask[]): readonly string[] {
  if (tasks.length === 0) return ['none'];
  const rows = tasks.map((task) => [
    task.id,
    task.action,
    task.status,
    `${task.done_exports + task.skipped_exports}/${task.exports}`,
    `${task.completed_runs} completed, ${task.failed_runs} failed, ${task.runs - task.completed_runs - task.failed_runs} open`,
    shortTime(task.created_at),
    task.cause,
  ]);
  const head = ['TASK', 'ACTION', 'STATUS', 'EXPORTS', 'RUNS', 'SINCE', 'CAUSE'];
  const skipped = tasks.flatMap(({ id, skipped_because: because }) =>
    because.map(
      (one) => `${id}: passed over ${plural(one.exports, 'export')}: ${plain(one.reason)}`,
    ),
  );
  return [...tableLines(head, rows, paintFor(deps.terminal)), ...skipped];
}
