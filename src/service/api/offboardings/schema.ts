import { Type } from 'typebox';

export const CreateOffboarding = Type.Object(
  {
    organization_id: Type.String({ format: 'uuid', description: 'The organization.' }),
    project_id: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 2_147_483_647,
        description: 'Only this project of the organization; absent: the whole organization.',
      }),
    ),
    confirm_name: Type.String({
      description: 'The name of what is deleted: of the project if one is named.',
    }),
  },
  { additionalProperties: false },
);

export const OffboardingParams = Type.Object({ id: Type.String({ format: 'uuid' }) });

/** The operations take no query parameters. */
export const NoQuery = Type.Object({}, { additionalProperties: false });
