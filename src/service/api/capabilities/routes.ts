import { Type } from 'typebox';
import { defaultModelOf } from '../../../foundation/domain/events-model.ts';
import { exportSettings } from '../../../foundation/domain/export-settings.ts';
import { modesOf } from '../../../foundation/domain/model.ts';
import { allowedIntervals } from '../../use-cases/exports/schedule.ts';
import type { Api } from '../api.ts';
import { keyOperation } from '../operations.ts';
import type { Deps } from '../options.ts';
import { Flag, Ref, Resource, Text, TextOrNull } from '../shapes.ts';

export const Capabilities = Resource('Capabilities', 'What exports can use in this installation.', {
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
    keyOperation('retrieveCapabilities', 'Retrieve what exports can use in this installation', {
      response: { 200: Ref(Capabilities) },
    }),
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
