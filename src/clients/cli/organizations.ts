import type { Command } from 'commander';
import { printRecord, printRecords } from './answer.ts';
import { readUuid } from './arguments.ts';
import type { CliDeps } from './deps.ts';
import { deleteTenant } from './offboardings.ts';

export function register(program: Command, deps: CliDeps): void {
  const organizations = program.command('organizations').description('Organizations');

  organizations
    .command('create')
    .description('create an organization')
    .requiredOption('--name <name>', 'its name')
    .option('--json', 'print JSON')
    .action(async ({ name, json }: { name: string; json?: boolean }) => {
      const { createOrganization } = await import(
        '../../service/use-cases/tenants/create-organization.ts'
      );
      const created = await deps.withDatabase((db) => createOrganization(db, name));
      printRecord(deps, json, created);
    });

  organizations
    .command('list')
    .description('list the organizations, oldest first')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { listOrganizations } = await import('../../state/store/tenants/tenants.ts');
      printRecords(deps, json, await deps.withDatabase(listOrganizations));
    });

  organizations
    .command('delete')
    .description('delete an organization with everything of it; its files stay in its buckets')
    .argument('<id>', "the organization's id", readUuid)
    .requiredOption('--confirm <name>', 'its name, to confirm what is deleted')
    .option('--json', 'print JSON')
    .action((id: string, { confirm, json }: { confirm: string; json?: boolean }) =>
      deleteTenant(deps, json, { organizationId: id, teamId: null, confirmName: confirm }),
    );
}
