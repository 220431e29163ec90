import type { Command } from 'commander';
import { readWholeNumber } from '../arguments.ts';
import type { CliDeps } from '../deps.ts';
import { withApi } from './open-api.ts';

/** `sluice exports …` */
export function registerExports(program: Command, deps: CliDeps): void {
  const exports = program
    .command('exports')
    .description('batch exports of a project, over the API');
  const which = 'name or id of the export';
  const add = (name: string, description: string) =>
    withApi(exports.command(name).description(description));
  const load = () => import('./exports-actions.ts');

  add('list', 'list the exports of the project')
    .option('--state <state>', 'only those that are failing, incomplete, late, paused or fine')
    .action(async (options) => (await load()).list(deps, options));

  add('get', 'show an export')
    .argument('<export>', which)
    .action(async (name, options) => (await load()).get(deps, name, options));

  withFields(add('create', 'create an export')).action(async (options) =>
    (await load()).create(deps, options),
  );

  withFields(add('update', 'change fields of an export; the others keep their values'))
    .argument('<export>', which)
    .action(async (name, options) => (await load()).update(deps, name, options));

  add('pause', 'pause an export; live runs finish')
    .argument('<export>', which)
    .action(async (name, options) => (await load()).pause(deps, name, options));

  add('unpause', 'unpause an export')
    .argument('<export>', which)
    .option('--backfill', 'also export the intervals that were missed in the pause')
    .option('--retry-missing', 'also export the requested intervals that have no data')
    .option('--dry-run', 'only show how many intervals these are')
    .action(async (name, options) => (await load()).unpause(deps, name, options));

  add('delete', 'delete an export and cancel its live runs; its files stay in the bucket')
    .argument('<export>', which)
    .option('--yes', 'do not ask')
    .action(async (name, options) => (await load()).remove(deps, name, options));

  withFields(add('test', 'try a destination step by step; exits with 1 if a step fails'))
    .argument('[export]', `${which}; with --file or --set, a change of it that is not saved`)
    .action(async (name, options) => (await load()).test(deps, name, options));

  withFields(add('preview', 'show up to 100 rows as the export would write them'))
    .argument('[export]', `${which}; with --file or --set, a change of it that is not saved`)
    .option('--limit <n>', 'rows to show', readWholeNumber, 10)
    .action(async (name, options) => (await load()).preview(deps, name, options));
}

function withFields(command: Command): Command {
  return command
    .option('-f, --file <path>', 'YAML or JSON with the fields of the export; - is standard input')
    .option(
      '--set <field=value>',
      'a field, such as interval=day or destination.config.prefix=events; may be repeated',
      (text: string, before: readonly string[] = []) => [...before, text],
    );
}
