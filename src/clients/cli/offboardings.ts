import type { Command } from 'commander';
import { inSnakeCase } from '../../foundation/domain/snake-case.ts';
import type { OffboardInput } from '../../service/use-cases/tenants/offboard.ts';
import { printRecord, printRecords } from './answer.ts';
import { readUuid } from './arguments.ts';
import { type CliDeps, CliError } from './deps.ts';

/** Begins the deletion of a tenant, for `sluice organizations delete` and `sluice projects delete`. */
export async function deleteTenant(
  deps: CliDeps,
  json: boolean | undefined,
  input: OffboardInput,
): Promise<void> {
  const { offboardTenant } = await import('../../service/use-cases/tenants/offboard.ts');
  const { id } = await deps.withDatabase((db) => offboardTenant(db, input, null));
  await show(deps, json, id);
  if (!json)
    deps.print(`A worker deletes it: \`sluice offboardings show ${id}\` shows the progress.`);
}

export function register(program: Command, deps: CliDeps): void {
  const offboardings = program
    .command('offboardings')
    .description('Organizations and projects that were deleted, and what stays in their buckets');

  offboardings
    .command('list')
    .description('list the newest 1000, newest first')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { listOffboardings } = await import('../../state/store/tenants/offboardings.ts');
      const listed = await deps.withDatabase((db) => listOffboardings(db, 1_000));
      const brief = listed.map(({ deletedRows: _, lastError, ...rest }) => ({
        ...rest,
        waitsFor: rest.completedAt === null ? lastError : null,
      }));
      printRecords(deps, json, brief);
    });

  offboardings
    .command('show')
    .description('show how far a deletion is, and the files that stay at the destinations')
    .argument('<id>', "the offboarding's id", readUuid)
    .option('--json', 'print JSON')
    .action((id: string, { json }: { json?: boolean }) => show(deps, json, id));
}

const maxPlaces = 100_000;

async function show(deps: CliDeps, json: boolean | undefined, id: string): Promise<void> {
  const { findOffboarding, listRemainingFiles } = await import(
    '../../state/store/tenants/offboardings.ts'
  );
  const [found, remaining] = await deps.withDatabase(
    async (db) =>
      [await findOffboarding(db, id), await listRemainingFiles(db, id, maxPlaces)] as const,
  );
  if (!found)
    throw new CliError(`There is no offboarding ${id}. See \`sluice offboardings list\`.`);
  const { deletedRows, lastError, ...facts } = found;
  const waitsFor = found.completedAt === null ? lastError : null;
  if (json) {
    printRecord(deps, json, {
      ...facts,
      waitsFor,
      deletedRows,
      remainingFiles: remaining.map(inSnakeCase),
    });
    return;
  }
  printRecord(deps, json, { ...facts, waitsFor });
  deps.print('');
  deps.print('Rows deleted:');
  printRecords(
    deps,
    json,
    Object.entries(deletedRows).map(([table, rows]) => ({ table, rows })),
  );
  deps.print('');
  deps.print('Files that stay at the destinations:');
  printRecords(deps, json, remaining);
}
