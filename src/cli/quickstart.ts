import type { Command } from 'commander';
import type { CliDeps } from './deps.ts';

/** `sluice quickstart`: the service with example data. */
export function register(program: Command, { print }: CliDeps): void {
  program
    .command('quickstart')
    .description('start everything, export a day of example events to S3 and verify them')
    .option('--exit', 'exit afterwards, with 0 if everything was verified')
    .action(async ({ exit = false }: { exit?: boolean }) => {
      const { runQuickstart } = await import('../quickstart/run.ts');
      await runQuickstart(exit, print);
    });
}
