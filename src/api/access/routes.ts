import { Type } from 'typebox';
import { allows, scopes } from '../../security/scopes.ts';
import { type Api, callerOf } from '../api.ts';
import { exportOperations, projectFamily } from '../operations.ts';
import { errors } from '../schemas/error.ts';
import { named, Ref } from '../schemas/shapes.ts';

export const KeyAccess = named(
  'KeyAccess',
  Type.Object(
    {
      key_name: Type.String({ description: 'The name of the API key.' }),
      scopes: Type.Array(Type.Enum([...scopes]), {
        description: 'All scopes that the key grants, implied ones included.',
      }),
    },
    {
      description: 'What the API key of the request may do.',
      examples: [{ key_name: 'dashboard', scopes: ['batch_export:read', 'plugin:read'] }],
    },
  ),
);

const { read } = exportOperations(projectFamily);

/** What a key may do in a project, so that a page offers nothing that the API would refuse. */
export function accessRoutes(api: Api): void {
  api.get(
    '',
    read('retrieveKeyAccess', 'Retrieve what the API key of the request may do', [], {
      response: { 200: Ref(KeyAccess), ...errors() },
    }),
    async (request) => {
      const { name, scopes: granted } = callerOf(request);
      return { key_name: name, scopes: scopes.filter((scope) => allows(granted, scope)) };
    },
  );
}
