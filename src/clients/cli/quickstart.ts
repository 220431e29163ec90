import type { Command } from 'commander';
import { readEventRows } from './arguments.ts';
import type { CliDeps } from './deps.ts';

/** `sluice quickstart`: the service with example data. */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('quickstart')
    .description('start everything, export a day of example events to S3 and verify them')
    .option('--exit', 'exit afterwards, with 0 if everything was verified')
    .option(
      '--rows <number>',
      'how many example events the first start writes',
      readEventRows,
      200_000,
    )
    .action(async ({ exit = false, rows }: { exit?: boolean; rows: number }) => {
      const { runQuickstart } = await import('../quickstart/run.ts');
      await runQuickstart({ exit, rows }, deps);
    });
}
