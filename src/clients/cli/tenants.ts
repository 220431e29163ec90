import type { Command } from 'commander';
import { inSnakeCase } from '../../foundation/domain/snake-case.ts';
import type { OffboardInput } from '../../service/use-cases/tenants/offboard.ts';
import { printRecord, printRecords } from './answer.ts';
import { readProjectId, readUuid } from './arguments.ts';
import { type CliDeps, CliError } from './deps.ts';

/** `sluice organizations …`, `projects …` and `offboardings …` */
export function register(program: Command, deps: CliDeps): void {
  registerOrganizations(program, deps);
  registerProjects(program, deps);
  registerOffboardings(program, deps);
}

function registerOrganizations(program: Command, deps: CliDeps): void {
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

interface ProjectOptions {
  readonly organization: string;
  readonly json?: boolean;
}

interface CreateOptions extends ProjectOptions {
  readonly name: string;
  readonly tenantKey?: string;
}

function registerProjects(program: Command, deps: CliDeps): void {
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
    .action(async ({ organization, json }: ProjectOptions) => {
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
    .action((id: number, { organization, confirm, json }: ProjectOptions & { confirm: string }) =>
      deleteTenant(deps, json, { organizationId: organization, teamId: id, confirmName: confirm }),
    );
}

/** Begins the deletion of a tenant, for `sluice organizations delete` and `sluice projects delete`. */
async function deleteTenant(
  deps: CliDeps,
  json: boolean | undefined,
  input: OffboardInput,
): Promise<void> {
  const { offboardTenant } = await import('../../service/use-cases/tenants/offboard.ts');
  const { id } = await deps.withDatabase((db) => offboardTenant(db, input, null));
  await showOffboarding(deps, json, id);
  if (!json)
    deps.print(`A worker deletes it: \`sluice offboardings show ${id}\` shows the progress.`);
}

function registerOffboardings(program: Command, deps: CliDeps): void {
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
    .action((id: string, { json }: { json?: boolean }) => showOffboarding(deps, json, id));
}

const maxPlaces = 100_000;

async function showOffboarding(
  deps: CliDeps,
  json: boolean | undefined,
  id: string,
): Promise<void> {
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
