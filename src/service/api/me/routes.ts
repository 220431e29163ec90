import { Type } from 'typebox';
import { defaultModelOf } from '../../../foundation/domain/events-model.ts';
import { exportSettings } from '../../../foundation/domain/export-settings.ts';
import { modesOf } from '../../../foundation/domain/model.ts';
import { allows, operatorScopes, scopes } from '../../../foundation/security/scopes.ts';
import { findOrganization, listProjects } from '../../../state/store/tenants/tenants.ts';
import { allowedIntervals } from '../../use-cases/exports/schedule.ts';
import { type Api, callerOf } from '../api.ts';
import { tenantOf } from '../hooks/authentication.ts';
import { keyOperation, operatorOperation } from '../operations.ts';
import type { Deps } from '../options.ts';
import { answers, Flag, Int, Resource, Text, TextOrNull } from '../shapes.ts';

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
      answers(Me),
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
      answers(OperatorMe),
    ),
    async (request) => {
      const { name, scopes: granted } = callerOf(request);
      return { key_name: name, scopes: operatorScopes.filter((scope) => allows(granted, scope)) };
    },
  );
}

const Capabilities = Resource('Capabilities', 'What exports can use in this installation.', {
  destinations: Type.Array(Type.String(), {
    description: 'Types that this installation supports.',
  }),
  models: Type.Array(
    Type.Object({
      name: Text('The value of `model` in an export.'),
      event_filters: Flag('Whether include_events and exclude_events are possible.'),
      modes: Type.Array(Type.Enum([...exportSettings.mode.choices])),
    }),
    { description: 'Models that can be exported.' },
  ),
  default_model: TextOrNull(
    'The model of an export that names none: `events`, or the only model. Null: an export must name one.',
  ),
  intervals: Type.Array(Type.String(), {
    description: 'Intervals that this installation allows.',
  }),
  file_formats: Type.Array(
    Type.Object({
      format: Type.String(),
      compressions: Type.Array(Type.String(), { description: 'Besides none (null).' }),
    }),
  ),
  own_credentials: Flag(
    'Whether a destination without credentials uses the credentials of the service. If false, credentials are required.',
  ),
  private_endpoints: Flag(
    'Whether the operator has allowed some endpoints on a private network. The API does not list them.',
  ),
  max_exports_per_project: Type.Integer(),
});

export function capabilityRoutes(api: Api, deps: Deps): void {
  const { destinations, destinationContext, formats, models, privateEndpoints } = deps;
  api.get(
    '',
    keyOperation(
      'retrieveCapabilities',
      'Retrieve what exports can use in this installation',
      answers(Capabilities),
    ),
    async (request) => {
      const { policy } = request.context;
      return {
        destinations: destinations
          .filter(({ isAvailable }) => isAvailable(destinationContext))
          .map(({ type }) => type),
        models: models.map((model) => ({
          name: model.name,
          event_filters: model.eventColumn !== null,
          modes: [...modesOf(model)],
        })),
        default_model: defaultModelOf(models.map(({ name }) => name)),
        intervals: [...allowedIntervals(policy.minIntervalMinutes)],
        file_formats: formats.map(({ format, compressions }) => ({
          format,
          compressions: Object.keys(compressions),
        })),
        own_credentials: destinationContext.allowAmbientCredentials,
        private_endpoints: privateEndpoints,
        max_exports_per_project: policy.maxExportsPerProject,
      };
    },
  );
}
