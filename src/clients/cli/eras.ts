import type { Command } from 'commander';
import { printRecord, printRecords } from './answer.ts';
import type { CliDeps } from './deps.ts';

/** `sluice eras …` */
export function register(program: Command, deps: CliDeps): void {
  const eras = program
    .command('eras')
    .description('history of the database: a restore, a copy or a failover begins a new era');

  eras
    .command('list')
    .description('list the eras, oldest first')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { currentEra, listEras } = await import('../../state/store/database/eras.ts');
      const listed = await deps.withDatabase(async (db) => {
        await currentEra(db);
        return listEras(db);
      });
      printRecords(deps, json, listed);
    });

  eras
    .command('accept')
    .description(
      'allow work on a restored or copied database, and on files of a lost history; first stop every other copy for good',
    )
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { acceptCurrentEra } = await import(
        '../../service/use-cases/installation/accept-era.ts'
      );
      printRecord(deps, json, await deps.withDatabase(acceptCurrentEra));
    });
}
