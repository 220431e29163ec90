import { type Static, Type } from 'typebox';

/** A name as PostgreSQL stores it: Sluice does not change its case. */
const storedName = (description: string) =>
  Type.String({ minLength: 1, maxLength: 63, pattern: '^[^\\0]+$', description });

const optionalName = (description: string) => Type.Optional(storedName(description));

const optionalNumber = (minimum: number, maximum: number, description: string) =>
  Type.Optional(Type.Integer({ minimum, maximum, description }));

const optionalChoice = (choices: string, description: string) =>
  Type.Optional(Type.String({ pattern: `^${choices}$`, description }));

const optionalVariable = (description: string) =>
  Type.Optional(Type.String({ pattern: '^[A-Z_][A-Z0-9_]*$', description }));

const namePart = '("([^"\\0]|"")+"|[^".\\0]+)';

/** Error messages and the documentation use the descriptions of its properties. */
export const ModelsFile = Type.Object(
  {
    models: Type.Array(
      Type.Object(
        {
          name: Type.String({
            pattern: '^[a-z_][a-z0-9_]{0,62}$',
            description:
              'Name of the model in exports and queries: lower-case letters, digits and `_`. A model with the name `events` replaces the built-in one.',
          }),
          relation: Type.String({
            pattern: `^${namePart}\\.${namePart}$`,
            description:
              '`schema.name` of a table, a partitioned table or a view, spelled as PostgreSQL stores it. Put double quotes around a part that contains a dot.',
          }),
          tenant_column: storedName('Column with the id of the project to which a row belongs.'),
          interval_column: optionalName(
            'Column with the time when a row arrived, preferably a `timestamptz` that never changes. Omit it if there is none: then exports of the model have `mode: snapshot` or `mode: changes`.',
          ),
          key_columns: Type.Array(storedName("A column of the relation's key."), {
            minItems: 1,
            uniqueItems: true,
            description: 'List of the columns that identify a row within a project.',
          }),
          event_column: optionalName(
            'Column that include_events and exclude_events use as filter. Omit it if there is none.',
          ),
          source: optionalVariable(
            'Name of the environment variable with the postgres:// address of the database. Omit it to use SOURCE_DATABASE_URL.',
          ),
          settle_url: optionalVariable(
            'Name of the environment variable with the postgres:// address of the primary. Set it if `source` is a standby. If `source` is omitted, the default is SOURCE_PRIMARY_URL.',
          ),
          row_security: optionalChoice(
            'filtered',
            '`filtered`: export only the rows that row-level security shows to the role. Without it, a policy that may leave out rows stops every export of the model.',
          ),
          on_schema_change: optionalChoice(
            '(fail|follow)',
            'What happens if the type of a column in the database differs from the type here. `fail` (the default) stops the exports of the model. `follow` writes the new type.',
          ),
          look_back_hours: optionalNumber(
            0,
            720,
            'Hours after the end of an interval in which Sluice looks for late rows, from 0 to 720, for exports that do not set look_back_hours themselves. Set it if clients set the times. Omit it to use LATE_LOOKBACK_HOURS.',
          ),
          version_column: optionalName(
            'Column that each write of a row sets, for exports of changes: an `xid8` that a trigger sets (`sluice models trigger <model>` prints it), or a `timestamptz` that a trigger sets to now().',
          ),
          version_set_by: optionalChoice(
            '(database|client)',
            '`database` (the default): a trigger sets version_column. `client`: programs set it, so a change may come late, and elements are unsettled.',
          ),
          deletes: optionalChoice(
            '(none|column|tombstones|compare)',
            'How exports of changes find deleted rows. `none` (the default): they do not. `column`: delete_column marks them. `tombstones`: a trigger writes their keys into tombstone_relation. `compare`: each element of compare_every compares all keys.',
          ),
          compare_every: optionalNumber(
            1,
            10_000,
            'For `deletes: compare`: in how many elements the keys are compared once. Default 24. Until then deleted rows stay at the destination.',
          ),
          delete_column: optionalName(
            'Column that marks a deleted row: a boolean that is true, or any other type that is not null. For `deletes: column`.',
          ),
          tombstone_relation: Type.Optional(
            Type.String({
              pattern: `^${namePart}\\.${namePart}$`,
              description:
                '`schema.name` of the table with the keys of deleted rows, for `deletes: tombstones`. It has columns with the names of tenant_column, key_columns and version_column.',
            }),
          ),
          tombstone_days: optionalNumber(
            1,
            3_650,
            'Days for which tombstone_relation keeps a tombstone at least. After a longer pause an export begins a new base. Omit it if tombstones are never removed.',
          ),
          columns: Type.Array(
            Type.Object(
              {
                name: storedName(
                  "Name of the column in queries and files. Without an expression, it is also the name of the relation's column.",
                ),
                type: Type.String({
                  minLength: 1,
                  maxLength: 200,
                  description:
                    'PostgreSQL type, such as `text`, `bigint` or `timestamptz`. For your own types, include the schema.',
                }),
                expression: Type.Optional(
                  Type.String({
                    minLength: 1,
                    maxLength: 10_000,
                    description:
                      'One SQL expression over the columns of the relation, without a subquery. Sluice trusts it and does not change it. For functions outside pg_catalog, include the schema.',
                  }),
                ),
              },
              { additionalProperties: false, description: 'A column.' },
            ),
            {
              minItems: 1,
              maxItems: 1_600,
              description:
                'List of the columns to export, in this order. Exports cannot read other columns of the relation.',
            },
          ),
        },
        { additionalProperties: false, description: 'A model.' },
      ),
      { minItems: 1, description: 'List of the models that can be exported.' },
    ),
  },
  { additionalProperties: false, description: 'The models file: a mapping with `models`.' },
);
export type ModelsFile = Static<typeof ModelsFile>;
export type ModelEntry = ModelsFile['models'][number];
