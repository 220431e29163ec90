import type { Command } from 'commander';
import { readPercent, readWholeNumber } from '../arguments.ts';
import type { CliDeps } from '../deps.ts';
import { withApi } from './open-api.ts';

const which = 'name or id of the export';

/** `sluice coverage …`, `delivery`, `changes` and `transformations …` */
export function registerRecords(program: Command, deps: CliDeps): void {
  registerCoverage(program, deps);
  withApi(program.command('changes').description('show who changed what of an export, and when'))
    .argument('<export>', which)
    .option('--limit <n>', 'changes to show', readWholeNumber, 20)
    .action(async (name, options) =>
      (await import('./coverage.ts')).listChanges(deps, name, options),
    );
  withApi(program.command('delivery').description('show which deadlines were met, and why not'))
    .argument('<export>', which)
    .option('--window <span>', 'how far back, such as 24h, 30d or 4w (default: 30d)')
    .option(
      '--target <percent>',
      'share of deadlines that should be met (default: 99)',
      readPercent,
    )
    .option('--csv', 'print CSV with a line per interval')
    .action(async (name, options) => (await import('./delivery.ts')).delivery(deps, name, options));
  registerTransformations(program, deps);
}

function registerCoverage(program: Command, deps: CliDeps): void {
  const coverage = program.command('coverage').description('the state of every data interval');
  const load = () => import('./coverage.ts');
  const add = (name: string, description: string) =>
    withApi(coverage.command(name).description(description))
      .argument('<export>', which)
      .option('--from <time>', 'start, ISO 8601, UTC if it has no offset')
      .option('--to <time>', 'end (exclusive); default: now')
      .option('--last <span>', 'instead of --from and --to: such as 6h or 2d');

  add('list', 'list the stretches of intervals by state; default: all').action(
    async (name, options) => (await load()).listCoverage(deps, name, options),
  );
  add('accept', 'accept the intervals of a range that are not done as they are')
    .option('--reason <text>', 'kept in the changes of the export')
    .option('--yes', 'do not ask')
    .action(async (name, options) => (await load()).acceptCoverage(deps, name, options));
}

function registerTransformations(program: Command, deps: CliDeps): void {
  const steps = program
    .command('transformations')
    .description('the chain of steps that changes rows before they are exported');
  const load = () => import('./chain.ts');
  const add = (name: string, description: string) =>
    withApi(steps.command(name).description(description));
  const withSettings = (command: Command) =>
    command
      .option(
        '--set <setting=value>',
        'a setting of its plugin; may be repeated',
        (text: string, before: readonly string[] = []) => [...before, text],
      )
      .option('--name <name>', 'name of the step')
      .option('--order <n>', 'its order in the chain', readWholeNumber)
      .option('--enabled', 'it changes rows from the next run on')
      .option('--disabled', 'it changes nothing');

  add('list', 'list the steps, and which exports apply them').action(async (options) =>
    (await load()).list(deps, options),
  );
  add('plugins', 'list the plugins that a step can use').action(async (options) =>
    (await load()).plugins(deps, options),
  );
  withSettings(add('create', 'add a step at the end of the chain'))
    .argument('<plugin>', 'name or id of the plugin')
    .action(async (plugin, options) => (await load()).create(deps, plugin, options));
  withSettings(add('update', 'change a step; what is not set stays'))
    .argument('<id>', 'id of the step', readWholeNumber)
    .action(async (id, options) => (await load()).update(deps, id, options));
  add('delete', 'delete a step; files that were exported with it stay')
    .argument('<id>', 'id of the step', readWholeNumber)
    .option('--yes', 'do not ask')
    .action(async (id, options) => (await load()).remove(deps, id, options));
}
