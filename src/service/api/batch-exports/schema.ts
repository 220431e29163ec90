import { type Static, type TObject, Type } from 'typebox';
import type { DestinationDefinition } from '../../../rows/destinations/destination.ts';
import { intervals } from '../../../foundation/domain/cadence.ts';
import { type Turn, turns } from '../../../foundation/domain/causes.ts';
import { PropertyFilter } from './filter-schema.ts';
import { BatchExportRun } from '../runs/schema.ts';
import { Nullable, named, Ref, Time } from '../schemas/shapes.ts';
import { namesModel } from '../validation/named-model.ts';
import { Health } from './search.ts';
import { settingSchemas, shownSettings } from './setting-schemas.ts';

type Config = Record<string, unknown>;

const Name = Type.String({ minLength: 1, maxLength: 400, pattern: '\\S' });
const Interval = Type.Enum([...intervals], { description: 'How often the export runs.' });
const AnyConfig = Type.Unsafe<Config>({ type: 'object', additionalProperties: true });

export const Missing = Type.Object(
  {
    count: Type.Integer({ description: 'At most 1000 are counted.' }),
    since: Nullable({ ...Time, description: 'Start of the oldest; null if there is none.' }),
  },
  {
    description:
      'Requested intervals without data: failed, cancelled or missing in coverage, and not accepted.',
  },
);

export const NullableTurn = Type.Unsafe<Turn | null>({
  type: ['string', 'null'],
  enum: [...turns, null],
  description:
    'Who can end it. ours: the operator of Sluice. source: the owner of the source database. customer: the owner of the export.',
});

export const Healing = Nullable(
  Type.Object(
    {
      intervals: Type.Integer({ description: 'At most 1000 are counted.' }),
      since: { ...Time, description: 'When the run of the oldest ended without success.' },
      until: { ...Time, description: 'Sluice tries until then: heal_for_hours after since.' },
      code: Nullable(
        Type.String({ description: 'The error; null if nothing is known to hold them up now.' }),
      ),
      turn: NullableTurn,
      next_probe_at: Nullable({
        ...Time,
        description:
          'The next attempt at the cause. Null: the intervals run as soon as there is room, or, if a person paused the export, once it is unpaused.',
      }),
    },
    {
      description:
        'Intervals without data that Sluice exports by itself once the cause is over; null if there is none.',
    },
  ),
);

export const BatchExport = named(
  'BatchExport',
  Type.Object(
    {
      id: Type.String({ format: 'uuid' }),
      team_id: Type.Integer({ description: 'The project that owns it.' }),
      name: Type.String(),
      destination: Type.Object({ type: Type.String(), config: AnyConfig }),
      secrets: Type.Array(
        Type.Object({
          name: Type.String(),
          ends_with: Nullable(Type.String({ description: 'Only of the id of an access key.' })),
        }),
        {
          description:
            'Secret properties of the config that are set. Their values are never shown.',
        },
      ),
      interval: Type.String(),
      paused: Type.Boolean(),
      created_at: Time,
      last_updated_at: Time,
      last_paused_at: Nullable(Time),
      start_at: Nullable(Time),
      end_at: Nullable(Time),
      ...shownSettings,
      late_since: Nullable({
        ...Time,
        description:
          'Time since which an interval has missed its deadline and has not arrived; without a deadline, since which the data is more than two intervals and six minutes old; null if it is not late. Sluice checks this once a minute.',
      }),
      latest_runs: Type.Array(Ref(BatchExportRun), { description: 'The 10 newest, newest first.' }),
      dsl_query: Nullable(
        Type.String({ description: 'With the conditions of filters in its WHERE.' }),
      ),
      filters: Nullable(Type.Array(PropertyFilter)),
      schema: Type.Unsafe<unknown>({
        description: 'The parsed form of dsl_query; null without a query.',
      }),
      model: Type.String(),
      timezone: Type.String(),
      offset_day: Nullable(Type.Integer()),
      offset_hour: Nullable(Type.Integer()),
      transformations: Type.Boolean(),
      paused_reason: Nullable(
        Type.String({ description: 'Why Sluice paused it; null if a person did.' }),
      ),
      next_run_at: Nullable(Time),
      high_water_mark: Nullable(Time),
      unsettled_from: Nullable({
        ...Time,
        description:
          'Start of the oldest exported interval that may still receive rows; null if there is none.',
      }),
      missing: Missing,
      healing: Healing,
      health: Health,
      health_reason: Nullable(
        Type.String({
          description:
            'Why it has this health: for failing, the error of the newest run that failed. Null if it is fine.',
        }),
      ),
      late_rows_added: Nullable(
        Type.Object(
          {
            rows: Type.Integer(),
            at: Time,
            data_interval_start: Time,
            data_interval_end: Time,
          },
          {
            description:
              'The newest rows that came late and that a look-back has added; null if it added none.',
          },
        ),
      ),
      failure_streak: Type.Integer({
        description:
          'Runs of the schedule that ended as Failed since the last success. After 10, Sluice pauses the export.',
      }),
      last_success_at: Nullable(Time),
      backfill_id: Type.Optional(
        Type.String({ format: 'uuid', description: 'Only if this request started a backfill.' }),
      ),
      backfill_total_runs: Type.Optional(
        Type.Integer({
          description:
            'Number of runs of the backfill that this request started. 0 means that there was nothing to export and the backfill has ended.',
        }),
      ),
      backfill_start_at: Type.Optional({
        ...Time,
        description: 'Start of the backfill, widened to whole intervals.',
      }),
      backfill_end_at: Type.Optional({
        ...Time,
        description: 'End of the backfill, widened to whole intervals.',
      }),
    },
    { description: 'A schedule that exports rows to a destination.' },
  ),
);
export type BatchExport = Static<typeof BatchExport>;

/** Optional fields of create and update. */
const optionalFields = {
  paused: Type.Optional(Type.Boolean()),
  last_paused_at: Type.Optional(Nullable(Time)),
  start_at: Type.Optional(Nullable(Time)),
  end_at: Type.Optional(Nullable(Time)),
  ...settingSchemas,
  dsl_query: Type.Optional(Nullable(Type.String({ maxLength: 100_000 }))),
  hogql_query: Type.Optional(
    Nullable(Type.String({ maxLength: 100_000, description: 'Another name of dsl_query.' })),
  ),
  filters: Type.Optional(
    Nullable(
      Type.Array(PropertyFilter, {
        maxItems: 100,
        description:
          'Conditions on properties, joined by AND. Sluice adds them to the WHERE of dsl_query. If a PATCH changes dsl_query and does not mention filters, the new query gets their conditions too. null or an empty list removes them; if dsl_query changes in the same PATCH, it stays as it was sent.',
      }),
    ),
  ),
  timezone: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  offset_day: Type.Optional(Nullable(Type.Integer({ description: '0–6, 0 = Sunday; week only.' }))),
  offset_hour: Type.Optional(Nullable(Type.Integer({ description: '0–23; day and week only.' }))),
  transformations: Type.Optional(Type.Boolean()),
};

const Team = Type.Integer({
  description: 'The project. Required if the organization has several.',
});
const AnyTeam = Type.Unsafe<number>({ description: 'Ignored: the path names the project.' });

/**
 * The bodies of create and update, for the destinations of this installation.
 *
 * @param takesTeam whether the body of create names the project: on organization paths
 */
export function batchExportBodies(
  destinations: readonly DestinationDefinition[],
  takesTeam: boolean,
) {
  const Model = Type.Optional(
    Type.String({
      description:
        'The model to export. GET /api/capabilities lists the models of the installation. Default: events, or the only model if the installation has one. It cannot change.',
    }),
  );
  const Destination = anyDestination(destinations);
  const create = {
    name: Name,
    destination: Destination,
    interval: Interval,
    ...optionalFields,
    model: Model,
    backfill: Type.Optional(Type.Boolean({ description: 'Also export from start_at to now.' })),
    unique_name: Type.Optional(
      Type.Boolean({
        description:
          'Refuse the request with 409 if the project already has an export of exactly this name, even if both are created at the same time. The answer has the id of the other export.',
      }),
    ),
    team_id: Type.Optional(takesTeam ? Team : AnyTeam),
  };
  const ChangedDestination = Type.Object(
    {
      type: Type.Optional(Type.Enum(destinations.map(({ type }) => type))),
      config: Type.Optional(AnyConfig),
    },
    {
      description: 'Sluice merges the config. An omitted secret keeps its value; null removes it.',
    },
  );
  return {
    Create: Type.Object(create, namesModel),
    Patch: Type.Object({
      name: Type.Optional(Name),
      destination: Type.Optional(ChangedDestination),
      interval: Type.Optional(Interval),
      ...optionalFields,
      model: Model,
    }),
    Put: Type.Object({
      name: Name,
      destination: ChangedDestination,
      interval: Interval,
      ...optionalFields,
      model: Model,
    }),
  };
}
export type BatchExportBodies = ReturnType<typeof batchExportBodies>;

/** The schema of each destination in the body of create, named after its type. */
export function destinationSchemas(destinations: readonly DestinationDefinition[]) {
  return destinations.map(({ type, configSchema }) =>
    Type.Object(
      { type: Type.Literal(type), config: closed(configSchema) },
      {
        $id: type,
        additionalProperties: false,
        description: `Files at a destination of type ${type}.`,
      },
    ),
  );
}

/** One branch per type. The discriminator `type` limits the errors to the right branch. */
function anyDestination(destinations: readonly DestinationDefinition[]) {
  return Type.Unsafe<{ type: string; config: Config }>({
    type: 'object',
    required: ['type'],
    discriminator: { propertyName: 'type' },
    oneOf: destinations.map(({ type }) => ({ $ref: `${type}#` })),
  });
}

/** Returns the same schema, but it refuses unknown keys. */
export function closed(schema: TObject): TObject {
  return Type.Object(schema.properties, { ...schema, additionalProperties: false });
}

export const UnpauseBody = Type.Object({
  backfill: Type.Optional(
    Type.Boolean({ description: 'Export the intervals that were missed while paused.' }),
  ),
  retry_missing: Type.Optional(
    Type.Boolean({
      description:
        'Export the requested intervals that have no data: those whose runs failed before the pause stay without data otherwise.',
    }),
  ),
  dry_run: Type.Optional(
    Type.Boolean({ description: 'Only return what these options would export. Nothing changes.' }),
  ),
});

export const UnpausePreview = named(
  'UnpausePreview',
  Type.Object(
    {
      dry_run: Type.Literal(true),
      missed_intervals: Type.Integer({
        description: 'Intervals that were missed in this pause: `backfill` exports them.',
      }),
      missed: Type.Array(Type.Object({ start: Time, end: Time }), {
        description: 'Their ranges, oldest first.',
      }),
      missing: Missing,
    },
    { description: 'What an unpause leaves out, unless its options ask for it.' },
  ),
);
