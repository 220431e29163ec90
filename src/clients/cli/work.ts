import type { Command } from 'commander';
import { printRecords } from './answer.ts';
import type { CliDeps } from './deps.ts';

const maxListed = 1_000;

/** `sluice work …` */
export function register(program: Command, deps: CliDeps): void {
  const work = program
    .command('work')
    .description('work besides runs that was set aside, because three processes died during it');

  work
    .command('list')
    .description(`list it, oldest first, at most ${maxListed}`)
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { listWorkSetAside } = await import('../../state/store/files/guarded-work.ts');
      printRecords(deps, json, await deps.withDatabase((db) => listWorkSetAside(db, maxListed)));
    });

  work
    .command('retry')
    .description('let the workers do it again; first fix the cause')
    .argument('[id]', 'the id of the list; default: all')
    .option('--json', 'print JSON')
    .action(async (id: string | undefined, { json }: { json?: boolean }) => {
      const { retryWork } = await import('../../state/store/files/guarded-work.ts');
      printRecords(deps, json, await deps.withDatabase((db) => retryWork(db, id ?? null)));
    });
}
