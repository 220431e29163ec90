import { type Static, type TSchema, Type } from 'typebox';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { orNotFound, Refusal, refuseIfAny } from '../../../foundation/domain/problem.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { listApiKeys } from '../../../state/store/tenants/api-keys.ts';
import {
  findOrganization,
  findProject,
  listOrganizationPage,
  listProjects,
  type Reach,
} from '../../../state/store/tenants/tenants.ts';
import {
  checkProject,
  createOrganization,
  createProject,
  disableTenant,
  judgeTenantKey,
  renameTenant,
} from '../../use-cases/tenants/change-tenants.ts';
import {
  checkKey,
  checkName,
  type IssuedKey,
  type IssueKeyInput,
  issueKey,
  revokeKey,
  rotateKey,
} from '../../use-cases/tenants/keys.ts';
import { type Api, callerOf, type Request } from '../api.ts';
import { only } from '../errors.ts';
import { OffsetPageOf, offsetEnvelope, PageQuery, pageOf } from '../lists.ts';
import { operatorOperation } from '../operations.ts';
import type { ApiOptions } from '../options.ts';
import { OptionalText, Ref } from '../shapes.ts';
import { refusesAll } from '../validation/every-problem.ts';
import {
  ApiKey,
  ChangeTenant,
  CreatedProject,
  CreateKey,
  CreateOperatorKey,
  CreateOrganization,
  CreateProject,
  IssuedApiKey,
  Organization,
  Project,
  RotateKey,
} from './schema.ts';

const OfOrganization = Type.Object({ organization_id: Type.String({ format: 'uuid' }) });
const OfProject = Type.Object({ project_id: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }) });
const OfKey = Type.Object({ key_id: Type.String({ format: 'uuid' }) });

export const Search = OptionalText({
  pattern: '\\S',
  maxLength: 400,
  description: 'Part of the name, or the id.',
});

const read = <P extends object>(name: string, summary: string, parts: P) =>
  operatorOperation('operator:read', name, summary, parts);
const write = <P extends object>(name: string, summary: string, parts: P) =>
  operatorOperation('operator:write', name, summary, parts);
const all = <T extends TSchema>(item: T) => Type.Object({ results: Type.Array(item) });

const newOrganization = refusesAll({
  standIns: { name: 'unnamed' },
  examine: (_request, body) => checkName(String(body.name)),
});
const newProject = refusesAll({
  standIns: { name: 'unnamed' },
  examine: (_request, body) => {
    const { name, tenant_key: tenantKey = null } = body as Static<typeof CreateProject>;
    return checkProject({ organizationId: '', name, tenantKey });
  },
});
const newKey = refusesAll({
  standIns: { name: 'unnamed', scopes: ['*'] },
  examine: async (request, body) => {
    const { organization_id: id } = request.params as { organization_id?: string };
    const organizationId = id === undefined ? null : await organizationOf(request, id);
    return checkKey(request.context.db, keyInput(organizationId, body as NewKey));
  },
});

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function tenantRoutes(api: Api, { findTenants }: Pick<ApiOptions, 'findTenants'>): void {
  const organizations = '/organizations';
  const one = `${organizations}/:organization_id`;

  api.get(
    organizations,
    read('listOrganizations', 'List the organizations by name', {
      querystring: Type.Object({ ...PageQuery, search: Search }),
      response: { 200: OffsetPageOf(Organization) },
    }),
    async (request) => {
      const page = pageOf(request.query);
      const { search } = request.query;
      const organizationPage = await listOrganizationPage(request.context.db, search ?? null, page);
      return offsetEnvelope(request, page, organizationPage, inSnakeCase);
    },
  );

  api.post(
    organizations,
    {
      ...write('createOrganization', 'Create an organization', {
        body: CreateOrganization,
        response: { 201: Ref(Organization) },
      }),
      ...newOrganization,
    },
    async (request, reply) => {
      const { db } = request.context;
      const created = await createOrganization(db, request.body.name, callerOf(request).id);
      reply.code(201);
      return inSnakeCase(created);
    },
  );

  api.patch(
    one,
    write('changeOrganization', 'Rename, disable or enable an organization', {
      params: OfOrganization,
      body: ChangeTenant,
      response: { 200: Ref(Organization) },
    }),
    async (request) => {
      const organizationId = await organizationOf(request, request.params.organization_id);
      await changeTenant(request, { organizationId, teamId: null }, request.body);
      const changed = orNotFound(await findOrganization(request.context.db, organizationId));
      return inSnakeCase(changed);
    },
  );

  api.get(
    `${one}/projects`,
    read('listProjectsOfOrganization', 'List the projects of an organization', {
      params: OfOrganization,
      response: { 200: all(Ref(Project)) },
    }),
    async (request) => {
      const id = await organizationOf(request, request.params.organization_id);
      return { results: (await listProjects(request.context.db, id)).map(inSnakeCase) };
    },
  );

  api.post(
    `${one}/projects`,
    {
      ...write('createProject', 'Create a project', {
        params: OfOrganization,
        body: CreateProject,
        response: { 201: Ref(CreatedProject) },
      }),
      ...newProject,
    },
    async (request, reply) => {
      const organizationId = await organizationOf(request, request.params.organization_id);
      const { name, tenant_key: tenantKey = null } = request.body;
      const input = { organizationId, name, tenantKey };
      refuseIfAny(checkProject(input));
      const warnings = findTenants ? await judgeTenantKey(tenantKey, findTenants) : [];
      const created = await createProject(request.context.db, input, callerOf(request).id);
      reply.code(201);
      return { ...inSnakeCase(created), warnings: [...warnings] };
    },
  );

  api.patch(
    '/projects/:project_id',
    write('changeProject', 'Rename, disable or enable a project', {
      params: OfProject,
      body: ChangeTenant,
      response: { 200: Ref(Project), ...only(409) },
    }),
    async (request) => {
      const teamId = request.params.project_id;
      const { db } = request.context;
      const project = orNotFound(await findProject(db, teamId));
      const tenant = { organizationId: project.organizationId, teamId };
      await changeTenant(request, tenant, request.body);
      const changed = orNotFound(await findProject(db, teamId));
      return inSnakeCase(changed);
    },
  );
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function keyRoutes(api: Api): void {
  const ofOrganization = '/organizations/:organization_id/keys';
  const issued = { config: { scope: 'operator:write', shownOnce: 'key' } } as const;

  api.get(
    ofOrganization,
    read('listKeys', 'List the keys of an organization, oldest first', {
      params: OfOrganization,
      response: { 200: all(Ref(ApiKey)) },
    }),
    async (request) => {
      const id = await organizationOf(request, request.params.organization_id);
      return { results: (await listApiKeys(request.context.db, id)).map(inSnakeCase) };
    },
  );
  api.post(
    ofOrganization,
    {
      ...write('createKey', 'Issue a key of an organization', {
        description: 'The answer shows the key, once.',
        params: OfOrganization,
        body: CreateKey,
        response: { 201: Ref(IssuedApiKey) },
      }),
      ...newKey,
      ...issued,
    },
    async (request, reply) => {
      const organizationId = await organizationOf(request, request.params.organization_id);
      const input = keyInput(organizationId, request.body);
      const key = await issueKey(request.context.db, input, callerOf(request).id);
      reply.code(201);
      return issuedView(key);
    },
  );

  api.get(
    '/keys',
    read('listOperatorKeys', 'List the keys of operators, oldest first', {
      response: { 200: all(Ref(ApiKey)) },
    }),
    async ({ context }) => ({ results: (await listApiKeys(context.db, null)).map(inSnakeCase) }),
  );
  api.post(
    '/keys',
    {
      ...write('createOperatorKey', 'Issue a key of an operator', {
        description:
          'It belongs to no organization. It may do what its scopes say over /api/admin, and it reads no rows of a customer. The answer shows the key, once.',
        body: CreateOperatorKey,
        response: { 201: Ref(IssuedApiKey) },
      }),
      ...newKey,
      ...issued,
    },
    async (request, reply) => {
      const input = keyInput(null, request.body);
      const key = await issueKey(request.context.db, input, callerOf(request).id);
      reply.code(201);
      return issuedView(key);
    },
  );

  api.post(
    '/keys/:key_id/revoke',
    write('revokeKey', 'Revoke a key immediately', {
      params: OfKey,
      response: { 200: Ref(ApiKey) },
    }),
    async (request) => {
      const { db } = request.context;
      return inSnakeCase(await revokeKey(db, request.params.key_id, callerOf(request).id));
    },
  );
  api.post(
    '/keys/:key_id/rotate',
    {
      ...write('rotateKey', 'Issue a key with the rights of another one', {
        description: 'The other key ends after the overlap. The answer shows the new key, once.',
        params: OfKey,
        body: RotateKey,
        response: { 201: Ref(IssuedApiKey) },
      }),
      ...issued,
    },
    async (request, reply) => {
      const { db } = request.context;
      const { overlap_seconds: overlap = 3_600 } = request.body;
      const key = await rotateKey(db, request.params.key_id, overlap, callerOf(request).id);
      reply.code(201);
      return issuedView(key);
    },
  );
}

async function changeTenant(
  request: Request,
  tenant: Reach,
  { name, disabled }: Static<typeof ChangeTenant>,
): Promise<void> {
  if (name === undefined && disabled === undefined) {
    const detail = 'Nothing would change. Send name, disabled or both.';
    throw new Refusal({ code: 'required', detail, attr: null });
  }
  const { id } = callerOf(request);
  if (name !== undefined) await renameTenant(request.context.db, tenant, name, id);
  if (disabled !== undefined) await disableTenant(request.context, tenant, disabled, id);
}

async function organizationOf({ context }: Request, id: string): Promise<string> {
  const organization = orNotFound(await findOrganization(context.db, id.toLowerCase()));
  return organization.id;
}

type NewKey = Static<typeof CreateKey> | Static<typeof CreateOperatorKey>;

function keyInput(organizationId: string | null, body: NewKey): IssueKeyInput {
  const { name, scopes, expires_at: end = null } = body;
  const projectIds = 'project_ids' in body ? (body.project_ids ?? null) : null;
  // The schema has refused what is not a time.
  const expiresAt = end === null ? null : (parseTime(end)?.timestamp ?? null);
  return { organizationId, projectIds, name, scopes, expiresAt };
}

const issuedView = ({ apiKey, key }: IssuedKey) => ({ ...inSnakeCase(apiKey), key });
