import { type Static, Type } from 'typebox';

/** A name as PostgreSQL stores it: Sluice does not change its case. */
const storedName = (description: string) =>
  Type.String({ minLength: 1, maxLength: 63, pattern: '^[^\\0]+$', description });

const variableName = (description: string) =>
  Type.String({ pattern: '^[A-Z_][A-Z0-9_]*$', description });

const namePart = '("([^"\\0]|"")+"|[^".\\0]+)';

/**
 * The models file. Error messages and the documentation use the descriptions of its properties.
 */
export const ModelsFile = Type.Object(
  {
    models: Type.Array(
      Type.Object(
        {
          name: Type.String({
            pattern: '^[a-z_][a-z0-9_]{0,62}$',
            description:
              'Its name in exports and queries: lower-case letters, digits and `_`. A model `events` replaces the built-in one.',
          }),
          relation: Type.String({
            pattern: `^${namePart}\\.${namePart}$`,
            description:
              '`schema.name` of a table, a partitioned table or a view, spelled as PostgreSQL stores it. Put double quotes around a part that contains a dot.',
          }),
          tenant_column: storedName(
            "The relation's column with the id of the project that a row belongs to.",
          ),
          interval_column: storedName(
            "The relation's column with the time a row arrived, preferably a `timestamptz` that never changes.",
          ),
          key_columns: Type.Array(storedName("A column of the relation's key."), {
            minItems: 1,
            uniqueItems: true,
            description:
              'A list of the columns of the relation that identify a row within a project.',
          }),
          event_column: Type.Optional(
            storedName(
              'The column of the relation that include_events and exclude_events filter by. Omit it if there is none.',
            ),
          ),
          source: Type.Optional(
            variableName(
              'The name of an environment variable with the postgres:// address of the database. Omit it to use SOURCE_DATABASE_URL.',
            ),
          ),
          settle_url: Type.Optional(
            variableName(
              'If `source` is a standby: the name of an environment variable with the postgres:// address of its primary. Without `source`, the default is SOURCE_PRIMARY_URL.',
            ),
          ),
          columns: Type.Array(
            Type.Object(
              {
                name: storedName(
                  "Its name in queries and files. Without an expression, also the name of the relation's column.",
                ),
                type: Type.String({
                  minLength: 1,
                  maxLength: 200,
                  description:
                    "PostgreSQL's name of the type, such as `text`, `bigint`, `timestamptz`. Write a type of your own with its schema.",
                }),
                expression: Type.Optional(
                  Type.String({
                    minLength: 1,
                    maxLength: 10_000,
                    description:
                      'One SQL expression over the columns of the relation, without a subquery. Sluice trusts it and does not change it. Write functions outside pg_catalog with their schema.',
                  }),
                ),
              },
              { additionalProperties: false, description: 'A column.' },
            ),
            {
              minItems: 1,
              maxItems: 1_600,
              description:
                'A list of the columns to export, in this order. Exports cannot read other columns of the relation.',
            },
          ),
        },
        { additionalProperties: false, description: 'A model.' },
      ),
      { minItems: 1, description: 'A list of the models that can be exported.' },
    ),
  },
  { additionalProperties: false, description: 'The models file: a mapping with `models`.' },
);
export type ModelsFile = Static<typeof ModelsFile>;
export type ModelEntry = ModelsFile['models'][number];
