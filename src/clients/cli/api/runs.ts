import type { Command } from 'commander';
import { readList, readWholeNumber } from '../arguments.ts';
import type { CliDeps } from '../deps.ts';
import { missingRows, withApi } from './open-api.ts';

/** `sluice runs …` */
export function registerRuns(program: Command, deps: CliDeps): void {
  const runs = program.command('runs').description('runs of an export, over the API');
  const load = () => import('./runs-actions.ts');
  const add = (name: string, description: string) =>
    withApi(runs.command(name).description(description)).argument(
      '<export>',
      'name or id of the export',
    );

  add('list', 'list runs, newest first')
    .option('--status <list>', 'only these, such as Failed,FailedRetryable, or Retrying', readList)
    .option('--limit <n>', 'runs to show', readWholeNumber, 20)
    .action(async (name, options) => (await load()).list(deps, name, options));

  add('retry', "run an ended run's interval again, as a new run")
    .argument('<run>', 'id of the run')
    .addOption(missingRows())
    .option('--yes', 'drop missing rows without asking')
    .action(async (name, run, options) => (await load()).retry(deps, name, run, options));

  add('cancel', 'cancel a run that has not ended')
    .argument('<run>', 'id of the run')
    .action(async (name, run, options) => (await load()).cancel(deps, name, run, options));

  add('files', 'list the files of a run, with their sizes and SHA-256')
    .argument('<run>', 'id of the run')
    .action(async (name, run, options) => (await load()).files(deps, name, run, options));
}
