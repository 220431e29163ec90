import type { Command } from 'commander';
import type { CliDeps } from './deps.ts';

/** `sluice quickstart`: the service with something to look at. */
export function register(program: Command, { print }: CliDeps): void {
  program
    .command('quickstart')
    .description('start everything, export a day of made-up events to S3 and prove it')
    .option('--exit', 'end afterwards: 0 where everything was proven')
    .action(async ({ exit = false }: { exit?: boolean }) => {
      const { runQuickstart } = await import('../quickstart/run.ts');
      await runQuickstart(exit, print);
    });
}
