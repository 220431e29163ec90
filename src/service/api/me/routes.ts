import { Type } from 'typebox';
import { allows, scopes } from '../../../foundation/security/scopes.ts';
import { findOrganization, listProjects } from '../../../state/store/tenants/tenants.ts';
import { type Api, callerOf } from '../api.ts';
import { tenantOf } from '../hooks/authentication.ts';
import { keyOperation } from '../operations.ts';
import { named, Ref } from '../schemas/shapes.ts';

/** Projects that the answer lists. */
const maxProjects = 1_000;

export const Me = named(
  'Me',
  Type.Object(
    {
      key_name: Type.String({ description: 'The name of the API key.' }),
      scopes: Type.Array(Type.Enum([...scopes]), {
        description: 'All scopes that the key grants, implied ones included.',
      }),
      organization: Type.Object({
        id: Type.String({ format: 'uuid', description: 'Identifier of the organization.' }),
        name: Type.String({ description: 'Name of the organization.' }),
      }),
      projects: Type.Array(
        Type.Object({
          id: Type.Integer({ description: 'Identifier of the project, for paths.' }),
          name: Type.String({ description: 'Name of the project.' }),
          external_id: Type.String({
            description:
              'The external ID that Sluice sends when it assumes a role for this project. Require it in the trust policy of the role.',
          }),
        }),
        { description: `The projects that the key has access to, by id; at most ${maxProjects}.` },
      ),
      all_projects: Type.Boolean({
        description:
          'Whether the key has access to the organization itself, with all its projects. If false, it has access to the listed projects only.',
      }),
      projects_count: Type.Integer({ description: 'How many projects the key has access to.' }),
    },
    { description: 'Who the API key of the request belongs to, and what it may do.' },
  ),
);

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
