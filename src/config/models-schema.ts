import { type Static, Type } from 'typebox';

/** As PostgreSQL stores it: nothing is folded to lower case. */
const storedName = (description: string) =>
  Type.String({ minLength: 1, maxLength: 63, pattern: '^[^\\0]+$', description });

const namePart = '("([^"\\0]|"")+"|[^".\\0]+)';

/**
 * The models file. What it says of each property is all that faults and the documentation say.
 */
export const ModelsFile = Type.Object(
  {
    models: Type.Array(
      Type.Object(
        {
          name: Type.String({
            pattern: '^[a-z_][a-z0-9_]{0,62}$',
            description:
              'What exports and queries call it: lower-case letters, digits and `_`. `events` takes the place of the built-in model.',
          }),
          relation: Type.String({
            pattern: `^${namePart}\\.${namePart}$`,
            description:
              '`schema.name` of a table, a partitioned table or a view, spelled as PostgreSQL stores it; a part with a dot stands in double quotes.',
          }),
          tenant_column: storedName(
            "The relation's column that holds the number of the project a row belongs to.",
          ),
          interval_column: storedName(
            "The relation's column that says when a row arrived, best a `timestamptz` that never changes.",
          ),
          key_columns: Type.Array(storedName("A column of the relation's key."), {
            minItems: 1,
            uniqueItems: true,
            description:
              'The columns of the relation that identify a row within a project, as a list.',
          }),
          event_column: Type.Optional(
            storedName(
              'The column of the relation that include_events and exclude_events look at; left out where there is none.',
            ),
          ),
          source: Type.Optional(
            Type.String({
              pattern: '^[A-Z_][A-Z0-9_]*$',
              description:
                'The name of an environment variable that holds the postgres:// address of the database; left out for SOURCE_DATABASE_URL.',
            }),
          ),
          settle_url: Type.Optional(
            Type.String({
              pattern: '^[A-Z_][A-Z0-9_]*$',
              description:
                'If `source` is a standby: the name of an environment variable that holds the postgres:// address of its primary. Without `source`, SOURCE_PRIMARY_URL by default.',
            }),
          ),
          columns: Type.Array(
            Type.Object(
              {
                name: storedName(
                  "What queries and files call it; without an expression also the relation's column.",
                ),
                type: Type.String({
                  minLength: 1,
                  maxLength: 200,
                  description:
                    "PostgreSQL's name of the type, such as `text`, `bigint`, `timestamptz`; one of your own with its schema.",
                }),
                expression: Type.Optional(
                  Type.String({
                    minLength: 1,
                    maxLength: 10_000,
                    description:
                      'SQL over the columns of the relation, trusted and run as it stands: one expression without a subquery, functions outside pg_catalog with their schema.',
                  }),
                ),
              },
              { additionalProperties: false, description: 'A column.' },
            ),
            {
              minItems: 1,
              maxItems: 1_600,
              description:
                'What is exported, in this order. Nothing else of the relation can be read.',
            },
          ),
        },
        { additionalProperties: false, description: 'A model.' },
      ),
      { minItems: 1, description: 'What can be exported, as a list.' },
    ),
  },
  { additionalProperties: false, description: 'The models file: a mapping with `models`.' },
);
export type ModelsFile = Static<typeof ModelsFile>;
export type ModelEntry = ModelsFile['models'][number];
