import type { Command } from 'commander';
import { printRecord, printRecords } from './answer.ts';
import { readProjectId, readUuid } from './arguments.ts';
import type { CliDeps } from './deps.ts';
import { deleteTenant } from './offboardings.ts';

interface Options {
  readonly organization: string;
  readonly json?: boolean;
}

interface CreateOptions extends Options {
  readonly name: string;
  readonly tenantKey?: string;
}

export function register(program: Command, deps: CliDeps): void {
  const projects = program.command('projects').description('Projects of an organization');

  projects
    .command('create')
    .description('create a project; its id is the team_id of all it owns')
    .requiredOption('--organization <id>', 'the organization that owns it', readUuid)
    .requiredOption('--name <name>', 'its name')
    .option(
      '--tenant-key <value>',
      "what the tenant column of a model has for this project: text, a UUID or a number. It cannot change (default: the project's id)",
    )
    .option('--json', 'print JSON')
    .action(async ({ organization, name, tenantKey, json }: CreateOptions) => {
      const { createProject } = await import('../../service/use-cases/tenants/create-project.ts');
      const input = { organizationId: organization, name, tenantKey: tenantKey ?? null };
      const created = await deps.withDatabase((db) => createProject(db, input));
      printRecord(deps, json, created);
    });

  projects
    .command('list')
    .description('list the projects of an organization, oldest first')
    .requiredOption('--organization <id>', 'the organization', readUuid)
    .option('--json', 'print JSON')
    .action(async ({ organization, json }: Options) => {
      const { listProjects } = await import('../../state/store/tenants/tenants.ts');
      const projects = await deps.withDatabase((db) => listProjects(db, organization));
      printRecords(deps, json, projects);
    });

  projects
    .command('delete')
    .description('delete a project with everything of it; its files stay in its buckets')
    .argument('<id>', "the project's id", readProjectId)
    .requiredOption('--organization <id>', 'the organization that owns it', readUuid)
    .requiredOption('--confirm <name>', 'its name, to confirm what is deleted')
    .option('--json', 'print JSON')
    .action((id: number, { organization, confirm, json }: Options & { confirm: string }) =>
      deleteTenant(deps, json, { organizationId: organization, teamId: id, confirmName: confirm }),
    );
}
