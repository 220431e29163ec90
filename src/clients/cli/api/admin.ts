import type { Command } from 'commander';
import { printRecord, printRecords } from '../answer.ts';
import {
  collectProjectIds,
  readList,
  readProjectId,
  readSeconds,
  readTime,
  readUuid,
} from '../arguments.ts';
import type { CliDeps } from '../deps.ts';
import { type ApiOptions, openApi, withApi } from './open-api.ts';

interface KeyOptions extends ApiOptions {
  readonly organization?: string;
  readonly restrictTo?: number[];
  readonly scopes: string[];
  readonly expiresAt?: string;
  readonly name: string;
}

/** `sluice admin …`: organizations, projects and keys over the API, with the key of an operator. */
export function registerAdmin(program: Command, deps: CliDeps): void {
  const admin = program
    .command('admin')
    .description('organizations, projects and keys of all customers (the key of an operator)');
  registerOrganizations(admin, deps);
  registerProjects(admin, deps);
  registerKeys(admin, deps);
}

const optionOf = {
  name: '--name',
  tenant_key: '--tenant-key',
  scopes: '--scopes',
  expires_at: '--expires-at',
  project_ids: '--restrict-to',
};

const add = (group: Command, name: string, description: string) =>
  withApi(group.command(name).description(description));

function registerOrganizations(admin: Command, deps: CliDeps): void {
  const group = admin.command('organizations').description('Organizations');
  add(group, 'create', 'create an organization')
    .requiredOption('--name <name>', 'its name')
    .action(async (options: ApiOptions & { readonly name: string }) => {
      const body = { name: options.name };
      const created = await openApi(deps, options).callAdmin('post', '/organizations', {
        body,
        optionOf,
      });
      printRecord(deps, options.json, created);
    });
  add(group, 'list', 'list the organizations by name')
    .option('--search <text>', 'part of a name, or an id')
    .action(async (options: ApiOptions & { readonly search?: string }) => {
      const { search } = options;
      const query = { limit: 1_000, ...(search && { search }) };
      const page = await openApi(deps, options).callAdmin('get', '/organizations', {
        query,
        optionOf: { search: '--search' },
      });
      printRecords(deps, options.json, page.results);
      if (!options.json && page.count > page.results.length)
        deps.print(`and ${page.count - page.results.length} more: use --search`);
    });
  for (const [name, disabled] of switches) {
    add(group, name, meaningOf[name])
      .argument('<id>', "the organization's id", readUuid)
      .action(async (id: string, options: ApiOptions) => {
        const api = openApi(deps, options);
        const changed = await api.callAdmin('patch', '/organizations/{organization_id}', {
          path: { organization_id: id },
          body: { disabled },
          notFound: `There is no organization ${id}.`,
        });
        printRecord(deps, options.json, changed);
      });
  }
}

const switches = [
  ['disable', true],
  ['enable', false],
] as const;
const meaningOf = {
  disable: 'refuse its keys and pause its exports; live runs finish',
  enable: 'take its keys again; exports that disable has paused continue',
} as const;

interface OfOrganization extends ApiOptions {
  readonly organization: string;
}

function registerProjects(admin: Command, deps: CliDeps): void {
  const group = admin.command('projects').description('Projects of an organization');
  const ofOrganization = (command: Command) =>
    command.requiredOption('--organization <id>', 'the organization that owns it', readUuid);
  ofOrganization(add(group, 'create', 'create a project; its id is the team_id of all it owns'))
    .requiredOption('--name <name>', 'its name')
    .option('--tenant-key <value>', "its value in the tenant column (default: the project's id)")
    .action(
      async (options: OfOrganization & { readonly name: string; readonly tenantKey?: string }) => {
        const { organization, name, tenantKey } = options;
        const path = '/organizations/{organization_id}/projects';
        const created = await openApi(deps, options).callAdmin('post', path, {
          path: { organization_id: organization },
          body: { name, ...(tenantKey !== undefined && { tenant_key: tenantKey }) },
          notFound: `There is no organization ${organization}.`,
          optionOf,
        });
        printRecord(deps, options.json, created);
      },
    );
  ofOrganization(add(group, 'list', 'list the projects of an organization, oldest first')).action(
    async (options: OfOrganization) => {
      const { organization } = options;
      const path = '/organizations/{organization_id}/projects';
      const { results } = await openApi(deps, options).callAdmin('get', path, {
        path: { organization_id: organization },
        notFound: `There is no organization ${organization}.`,
      });
      printRecords(deps, options.json, results);
    },
  );
  for (const [name, disabled] of switches) {
    add(group, name, meaningOf[name])
      .argument('<id>', "the project's id", readProjectId)
      .action(async (id: number, options: ApiOptions) => {
        const changed = await openApi(deps, options).callAdmin('patch', '/projects/{project_id}', {
          path: { project_id: String(id) },
          body: { disabled },
          notFound: `There is no project ${id}.`,
        });
        printRecord(deps, options.json, changed);
      });
  }
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of verbs
function registerKeys(admin: Command, deps: CliDeps): void {
  const group = admin
    .command('keys')
    .description('API keys of an organization; without --organization, those of operators');
  const organization = ['--organization <id>', 'the organization that owns them'] as const;
  const ofKeys = '/organizations/{organization_id}/keys';
  add(group, 'create', 'issue a key; it is shown only once')
    .option(...organization, readUuid)
    .option(
      '--restrict-to <project>',
      'allow only this project; may be repeated',
      collectProjectIds,
    )
    .requiredOption('--scopes <list>', 'such as batch_export:read,plugin:write, or *', readList)
    .option('--expires-at <time>', 'time of expiry, ISO 8601', readTime)
    .requiredOption('--name <name>', 'name of the key')
    .action(async (options: KeyOptions) => {
      const { organization: id, name, scopes, expiresAt: expires_at, restrictTo } = options;
      const api = openApi(deps, options);
      const body = { name, scopes, ...(expires_at && { expires_at }) };
      const created =
        id === undefined
          ? await api.callAdmin('post', '/keys', { body, optionOf })
          : await api.callAdmin('post', ofKeys, {
              path: { organization_id: id },
              body: { ...body, ...(restrictTo && { project_ids: restrictTo }) },
              notFound: `There is no organization ${id}.`,
              optionOf,
            });
      printRecord(deps, options.json, created);
    });
  add(group, 'list', 'list the keys, oldest first')
    .option(...organization, readUuid)
    .action(async (options: ApiOptions & { readonly organization?: string }) => {
      const { organization: id } = options;
      const api = openApi(deps, options);
      const { results } =
        id === undefined
          ? await api.callAdmin('get', '/keys', {})
          : await api.callAdmin('get', ofKeys, {
              path: { organization_id: id },
              notFound: `There is no organization ${id}.`,
            });
      printRecords(deps, options.json, results);
    });
  const notFound = 'There is no such key.';
  add(group, 'revoke', 'revoke a key immediately')
    .argument('<id>', "the key's id", readUuid)
    .action(async (id: string, options: ApiOptions) => {
      const path = { key_id: id };
      const api = openApi(deps, options);
      printRecord(
        deps,
        options.json,
        await api.callAdmin('post', '/keys/{key_id}/revoke', { path, notFound }),
      );
    });
  add(group, 'rotate', 'issue a key with the same rights; the old key stays valid for the overlap')
    .argument('<id>', "the old key's id", readUuid)
    .option('--overlap <seconds>', 'how long both are valid', readSeconds, 3_600)
    .action(async (id: string, options: ApiOptions & { readonly overlap: number }) => {
      const path = { key_id: id };
      const body = { overlap_seconds: options.overlap };
      const api = openApi(deps, options);
      printRecord(
        deps,
        options.json,
        await api.callAdmin('post', '/keys/{key_id}/rotate', { path, body, notFound }),
      );
    });
}
