import { Type } from 'typebox';
import { allows, operatorScopes } from '../../../foundation/security/scopes.ts';
import { type Api, callerOf } from '../api.ts';
import { named, Ref } from '../schemas/shapes.ts';
import { operation } from './tenants.ts';

export const OperatorMe = named(
  'OperatorMe',
  Type.Object(
    {
      key_name: Type.String({ description: 'The name of the API key.' }),
      scopes: Type.Array(Type.Enum([...operatorScopes]), {
        description: 'All scopes that the key grants, implied ones included.',
      }),
    },
    { description: "What an operator's key may do." },
  ),
);

/** The rights of an operator's key, so that a client offers nothing that the API would refuse. */
export function operatorMeRoutes(api: Api): void {
  api.get(
    '/me',
    operation('operator:read', 'retrieveOperatorMe', "Retrieve what an operator's key may do", {
      response: { 200: Ref(OperatorMe) },
    }),
    async (request) => {
      const { name, scopes: granted } = callerOf(request);
      return { key_name: name, scopes: operatorScopes.filter((scope) => allows(granted, scope)) };
    },
  );
}
