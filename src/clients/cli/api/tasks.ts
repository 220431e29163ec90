import { type Command, Option } from 'commander';
import { readList, readWholeNumber } from '../arguments.ts';
import type { CliDeps } from '../deps.ts';
import { withApi } from './open-api.ts';
import { missingRows, optionOf } from './verb.ts';

/** `sluice status`, `backfill`, `logs`, `apply` and `export`. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of verbs
export function registerTasks(program: Command, deps: CliDeps): void {
  const add = (name: string, description: string) =>
    withApi(program.command(name).description(description));
  const which = 'name or id of the export';

  add('status', 'show what fails, what is late, the workers and the queue')
    .option('--all', 'over all customers, with the key of an operator')
    .option('--check', 'exit with 1 if something needs attention')
    .action(async (options) => (await import('./status.ts')).status(deps, options));

  add('backfill', 'export a range of the past, and wait until it is done')
    .argument('<export>', which)
    .option(
      '--from <time>',
      'start, ISO 8601: 2024-03-01 or 2024-03-01T00:00:00Z (UTC if it has no offset)',
    )
    .option('--to <time>', 'end (exclusive); default: now')
    .option(
      '--last <span>',
      'instead of --from and --to: the last hours or days, such as 6h, 2d or 90m',
    )
    .option('--dry-run', 'only show which runs it would make')
    .addOption(
      new Option(
        '--reprocess <which>',
        'which intervals: all, those without data (failed), those without data that were asked for (missing), those that never ran (none) (default: all)',
      ).choices(['all', 'failed', 'missing', 'none']),
    )
    .addOption(optionOf(missingRows))
    .option('--yes', 'drop missing rows without asking')
    .option('--newest-first', 'begin with the newest interval')
    .option('--concurrency <n>', 'maximum runs at a time', readWholeNumber)
    .option('--no-wait', 'return as soon as it has begun')
    .action(async (name, options) => (await import('./backfill.ts')).backfill(deps, name, options));

  add('logs', 'show the newest log entries of an export')
    .argument('<export>', which)
    .option('-f, --follow', 'also show new entries until Ctrl-C')
    .option('--run <id>', 'only those of this run')
    .option('--level <list>', 'only these, such as WARNING,ERROR', readList)
    .option(
      '--since <time>',
      'only newer ones: a span back such as 6h or 90m, or a time in ISO 8601',
    )
    .option('--search <text>', 'only those whose message contains this text')
    .option('--limit <n>', 'entries to begin with', readWholeNumber, 100)
    .action(async (name, options) => (await import('./logs.ts')).logs(deps, name, options));

  add(
    'apply',
    'create and change exports, steps and notification targets until they are as in a file',
  )
    .requiredOption(
      '-f, --file <path>',
      'YAML with a list named exports, and if you want transformations and notifications; - is standard input',
    )
    .option('--dry-run', 'only show the differences')
    .option(
      '--prune',
      'delete exports of the project that the file does not have, and steps and targets if it lists others',
    )
    .option('--secrets', 'also send the secrets of exports that exist, after a rotation')
    .option('--yes', 'delete without asking')
    .action(async (options) => (await import('./apply.ts')).apply(deps, options));

  add('export', 'print the exports of the project as a file for apply').action(async (options) =>
    (await import('./export-all.ts')).exportAll(deps, options),
  );
}
