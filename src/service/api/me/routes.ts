import { Type } from 'typebox';
import { allows, operatorScopes, scopes } from '../../../foundation/security/scopes.ts';
import { findOrganization, listProjects } from '../../../state/store/tenants/tenants.ts';
import { type Api, callerOf } from '../api.ts';
import { tenantOf } from '../hooks/authentication.ts';
import { keyOperation, operatorOperation } from '../operations.ts';
import { Flag, Int, Ref, Resource, Text } from '../shapes.ts';

const maxProjects = 1_000;

const Me = Resource('Me', 'Who the API key of the request belongs to, and what it may do.', {
  key_name: Text('The name of the API key.'),
  scopes: Type.Array(Type.Enum([...scopes]), {
    description: 'All scopes that the key grants, implied ones included.',
  }),
  organization: Type.Object({
    id: Type.String({ format: 'uuid', description: 'Identifier of the organization.' }),
    name: Text('Name of the organization.'),
  }),
  projects: Type.Array(
    Type.Object({
      id: Int('Identifier of the project, for paths.'),
      name: Text('Name of the project.'),
      external_id: Text(
        'The external ID that Sluice sends when it assumes a role for this project. Require it in the trust policy of the role.',
      ),
    }),
    { description: `The projects that the key has access to, by id; at most ${maxProjects}.` },
  ),
  all_projects: Flag(
    'Whether the key has access to the organization itself, with all its projects. If false, it has access to the listed projects only.',
  ),
  projects_count: Int('How many projects the key has access to.'),
});

/** The rights of a key, and where it has them, so that a client offers nothing that the API would refuse. */
export function meRoutes(api: Api): void {
  api.get(
    '',
    keyOperation(
      'retrieveMe',
      'Retrieve what the API key of the request may do, and its projects',
      { response: { 200: Ref(Me) } },
    ),
    async (request) => {
      const { name, organizationId, projectIds, scopes: granted } = tenantOf(callerOf(request));
      const { db } = request.context;
      const [organization, all] = await Promise.all([
        findOrganization(db, organizationId),
        listProjects(db, organizationId),
      ]);
      if (!organization) throw new Error('a key without its organization');
      const own = all.filter(({ id }) => projectIds === null || projectIds.includes(id));
      return {
        key_name: name,
        scopes: scopes.filter((scope) => allows(granted, scope)),
        organization: { id: organization.id, name: organization.name },
        projects: own.slice(0, maxProjects).map(({ id, name: project, externalId }) => ({
          id,
          name: project,
          external_id: externalId,
        })),
        all_projects: projectIds === null,
        projects_count: own.length,
      };
    },
  );
}

const OperatorMe = Resource('OperatorMe', "What an operator's key may do.", {
  key_name: Text('The name of the API key.'),
  scopes: Type.Array(Type.Enum([...operatorScopes]), {
    description: 'All scopes that the key grants, implied ones included.',
  }),
});

export function operatorMeRoutes(api: Api): void {
  api.get(
    '/me',
    operatorOperation(
      'operator:read',
      'retrieveOperatorMe',
      "Retrieve what an operator's key may do",
      {
        response: { 200: Ref(OperatorMe) },
      },
    ),
    async (request) => {
      const { name, scopes: granted } = callerOf(request);
      return { key_name: name, scopes: operatorScopes.filter((scope) => allows(granted, scope)) };
    },
  );
}
