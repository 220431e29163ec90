import { Type } from 'typebox';
import { operatorScopes, scopes } from '../../../foundation/security/scopes.ts';
import {
  Int,
  Nullable,
  named,
  OptionalInt,
  Resource,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
  UuidOrNull,
} from '../shapes.ts';

const Name = Text('A name of 1 to 400 characters.');
const DisabledAt = TimeOrNull('Since when an operator has disabled it; null: it is enabled.');

export const Organization = Resource('Organization', null, {
  id: Type.String({ format: 'uuid' }),
  name: Name,
  created_at: Time,
  disabled_at: DisabledAt,
});

const projectFields = {
  id: Int('The project in paths; the team_id of all that it owns.'),
  organization_id: Type.String({ format: 'uuid' }),
  name: Name,
  tenant_key: Text('What the tenant column of a model has for the rows of this project.'),
  external_id: Text('The external ID that Sluice sends when it assumes a role for this project.'),
  created_at: Time,
  disabled_at: DisabledAt,
};
export const Project = named('Project', Type.Object(projectFields));
export const CreatedProject = Resource('CreatedProject', null, {
  ...projectFields,
  warnings: Type.Array(Type.String(), {
    description: 'What the models say of tenant_key: no row has it yet, or a model did not answer.',
  }),
});

const keyFields = {
  id: Type.String({ format: 'uuid' }),
  organization_id: UuidOrNull('Null: the key of an operator.'),
  project_ids: Nullable(
    Type.Array(Type.Integer(), { description: 'Null: all projects of the organization.' }),
  ),
  name: Name,
  scopes: Type.Array(Type.String()),
  created_at: Time,
  expires_at: Nullable(Time),
  revoked_at: Nullable(Time),
  last_used_at: TimeOrNull('Written at most once per minute.'),
};
export const ApiKey = named('ApiKey', Type.Object(keyFields));
export const IssuedApiKey = Resource('IssuedApiKey', null, {
  ...keyFields,
  key: TextOrNull(
    'The key. It is shown once: null in the answer to a repeated request with the same Idempotency-Key.',
  ),
});

const disabling =
  'true: its keys are refused and its exports are paused; live runs finish. false: the exports that this has paused continue with the next interval.';

const strict = { additionalProperties: false };

export const CreateOrganization = Type.Object({ name: Name }, strict);

export const CreateProject = Type.Object(
  {
    name: Name,
    tenant_key: Type.Optional(
      TextOrNull(
        "What the tenant column of a model has for this project: text, a UUID or a number. No other project may have it, and it cannot change. Default: the project's id.",
      ),
    ),
  },
  strict,
);

export const ChangeTenant = Type.Object(
  {
    name: Type.Optional(Name),
    disabled: Type.Optional(Type.Boolean({ description: disabling })),
  },
  strict,
);

const newKey = {
  name: Name,
  expires_at: Type.Optional(TimeOrNull('Null: it does not expire.')),
};
export const CreateKey = Type.Object(
  {
    ...newKey,
    scopes: Type.Array(Type.Enum([...scopes, '*']), { minItems: 1 }),
    project_ids: Type.Optional(
      Nullable(Type.Array(Type.Integer({ minimum: 1, maximum: 2_147_483_647 }), { minItems: 1 })),
    ),
  },
  strict,
);
export const CreateOperatorKey = Type.Object(
  { ...newKey, scopes: Type.Array(Type.Enum([...operatorScopes, '*']), { minItems: 1 }) },
  strict,
);
export const RotateKey = Type.Object(
  {
    overlap_seconds: OptionalInt({
      minimum: 0,
      maximum: 31_536_000,
      description: 'How long both keys are valid. Default 3600.',
    }),
  },
  strict,
);
