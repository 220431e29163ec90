import {
  type Static,
  type TObject,
  type TOptional,
  type TSchema,
  type TUnsafe,
  Type,
} from 'typebox';
import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import { intervals } from '../../../foundation/domain/cadence.ts';
import { type Turn, turns } from '../../../foundation/domain/causes.ts';
import {
  type ExportSettingFields,
  settingList,
} from '../../../foundation/domain/export-settings.ts';
import type { PropertyFilter as Filter } from '../../../foundation/domain/property-filter.ts';
import type { DestinationDefinition } from '../../../rows/destinations/destination.ts';
import { BatchExportRun } from '../runs/schema.ts';
import {
  Flag,
  Int,
  IntOrNull,
  Nullable,
  OptionalText,
  PartOrNull,
  Ref,
  Resource,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
} from '../shapes.ts';
import { namesModel } from '../validation/validator.ts';

const Value = { type: ['string', 'number', 'boolean', 'null'], maxLength: 1_000 };

const shape = Type.Object({
  key: Type.String({ minLength: 1, maxLength: 400, description: 'The name of the property.' }),
  operator: OptionalText({
    maxLength: 100,
    description:
      'exact (default), is_not, icontains, not_icontains, is_set, is_not_set, gt, gte, lt, lte, in or not_in. Numbers are compared with JSON numbers only.',
  }),
  type: OptionalText({
    maxLength: 100,
    description: 'event (default) or person: whose property it is.',
  }),
  value: Type.Optional(
    Type.Unsafe<Filter['value']>({
      type: [...Value.type, 'array'],
      maxLength: Value.maxLength,
      items: Value,
      maxItems: 100,
      description: 'One value, or a list. One of them must match.',
    }),
  ),
  label: Type.Optional(Type.String({ maxLength: 400, description: 'A text for people.' })),
});

const PropertyFilter = Type.Unsafe<Filter>(shape);

type Fields = ExportSettingFields;

/** The settings as requests give them. The page asks for what has `x-setting`. */
const settingSchemas = schemasOf((setting) => {
  const { type, minimum, maximum, choices, title, default: preset, isLocal } = setting;
  const more = {
    'x-setting': isLocal ? 'local' : 'any',
    ...(preset !== null && { 'x-default': preset }),
  };
  const schema = { ...more, title, description: setting.description };
  return Type.Optional(
    orNull(
      setting,
      type === 'integer'
        ? Type.Integer({
            ...schema,
            ...(minimum !== undefined && { minimum }),
            ...(maximum !== undefined && { maximum }),
          })
        : choices
          ? Type.Enum([...choices], schema)
          : Type.String({
              ...schema,
              'x-input': 'time',
              pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$',
            }),
    ),
  );
}) as { [Field in keyof Fields]: TOptional<TUnsafe<Fields[Field]>> };

const shownSettings = schemasOf((setting) => {
  const { type, choices, description } = setting;
  return orNull(
    setting,
    type === 'integer'
      ? Type.Integer({ description })
      : choices
        ? Type.Enum([...choices], { description })
        : Type.String({ description }),
  );
}) as { [Field in keyof Fields]: TUnsafe<Fields[Field]> };

function schemasOf(schemaOf: (setting: (typeof settingList)[number]) => TSchema): object {
  return Object.fromEntries(settingList.map((setting) => [setting.field, schemaOf(setting)]));
}

function orNull(
  { default: preset, mayBeNull }: (typeof settingList)[number],
  schema: TSchema,
): TSchema {
  return preset === null || mayBeNull === true ? Nullable(schema) : schema;
}

type Config = Record<string, unknown>;

const Name = Type.String({ minLength: 1, maxLength: 400, pattern: '\\S' });
const Interval = Type.Enum([...intervals], { description: 'How often the export runs.' });
const AnyConfig = Type.Unsafe<Config>({ type: 'object', additionalProperties: true });

const Health = Type.Enum([...exportHealths], {
  description:
    'failing: the latest run that ended has failed. late: an interval has missed its deadline; without a deadline, the data is more than two intervals and six minutes old. incomplete: some intervals have no data. paused: a person paused it, or Sluice paused it and a run has succeeded since. fine: none of these.',
});

export const Missing = Type.Object(
  {
    count: Int('At most 1000 are counted.'),
    since: TimeOrNull('Start of the oldest; null if there is none.'),
  },
  {
    description:
      'Requested intervals without data: failed, cancelled or missing in coverage, and not accepted.',
  },
);

const NullableTurn = Type.Unsafe<Turn | null>({
  type: ['string', 'null'],
  enum: [...turns, null],
  description:
    'Who can end it. ours: the operator of Sluice. source: the owner of the source database. customer: the owner of the export.',
});

export const Healing = PartOrNull(
  'Intervals without data that Sluice exports by itself once the cause is over; null if there is none.',
  {
    intervals: Int('At most 1000 are counted.'),
    since: { ...Time, description: 'When the run of the oldest ended without success.' },
    until: { ...Time, description: 'Sluice tries until then: heal_for_hours after since.' },
    code: TextOrNull('The error; null if nothing is known to hold them up now.'),
    turn: NullableTurn,
    next_probe_at: TimeOrNull(
      'The next attempt at the cause. Null: the intervals run as soon as there is room, or, if a person paused the export, once it is unpaused.',
    ),
  },
);

export const BatchExport = Resource(
  'BatchExport',
  'A schedule that exports rows to a destination.',
  {
    id: Type.String({ format: 'uuid' }),
    team_id: Int('The project that owns it.'),
    name: Type.String(),
    destination: Type.Object({ type: Type.String(), config: AnyConfig }),
    secrets: Type.Array(
      Type.Object({
        name: Type.String(),
        ends_with: TextOrNull('Only of the id of an access key.'),
      }),
      {
        description: 'Secret properties of the config that are set. Their values are never shown.',
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
    late_since: TimeOrNull(
      'Time since which an interval has missed its deadline and has not arrived; without a deadline, since which the data is more than two intervals and six minutes old; null if it is not late. Sluice checks this once a minute.',
    ),
    latest_runs: Type.Array(Ref(BatchExportRun), { description: 'The 10 newest, newest first.' }),
    dsl_query: TextOrNull('With the conditions of filters in its WHERE.'),
    filters: Nullable(Type.Array(PropertyFilter)),
    schema: Type.Unsafe<unknown>({
      description: 'The parsed form of dsl_query; null without a query.',
    }),
    model: Type.String(),
    timezone: Type.String(),
    offset_day: Nullable(Type.Integer()),
    offset_hour: Nullable(Type.Integer()),
    transformations: Type.Boolean(),
    paused_reason: TextOrNull('Why Sluice paused it; null if a person did.'),
    next_run_at: Nullable(Time),
    high_water_mark: Nullable(Time),
    unsettled_from: TimeOrNull(
      'Start of the oldest exported interval that may still receive rows; null if there is none.',
    ),
    missing: Missing,
    healing: Healing,
    health: Health,
    health_reason: TextOrNull(
      'Why it has this health: for failing, the error of the newest run that failed. Null if it is fine.',
    ),
    late_rows_added: PartOrNull(
      'The newest rows that came late and that a look-back has added; null if it added none.',
      {
        rows: Type.Integer(),
        at: Time,
        data_interval_start: Time,
        data_interval_end: Time,
      },
    ),
    failure_streak: Int(
      'Runs of the schedule that ended as Failed since the last success. After 10, Sluice pauses the export.',
    ),
    last_success_at: Nullable(Time),
    backfill_id: OptionalText({
      format: 'uuid',
      description: 'Only if this request started a backfill.',
    }),
    backfill_total_runs: Type.Optional(
      Int(
        'Number of runs of the backfill that this request started. 0 means that there was nothing to export and the backfill has ended.',
      ),
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
);
export type BatchExport = Static<typeof BatchExport>;

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
  offset_day: Type.Optional(IntOrNull('0–6, 0 = Sunday; week only.')),
  offset_hour: Type.Optional(IntOrNull('0–23; day and week only.')),
  transformations: Type.Optional(Type.Boolean()),
};

const Team = Int('The project. Required if the organization has several.');
const AnyTeam = Type.Unsafe<number>({ description: 'Ignored: the path names the project.' });

/** @param takesTeam whether the body of create names the project: on organization paths */
export function batchExportBodies(
  destinations: readonly DestinationDefinition[],
  takesTeam: boolean,
) {
  const Model = Type.Optional(
    Text(
      'The model to export. GET /api/capabilities lists the models of the installation. Default: events, or the only model if the installation has one. It cannot change.',
    ),
  );
  const Destination = anyDestination(destinations);
  const create = {
    name: Name,
    destination: Destination,
    interval: Interval,
    ...optionalFields,
    model: Model,
    backfill: Type.Optional(Flag('Also export from start_at to now.')),
    unique_name: Type.Optional(
      Flag(
        'Refuse the request with 409 if the project already has an export of exactly this name, even if both are created at the same time. The answer has the id of the other export.',
      ),
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

export function closed(schema: TObject): TObject {
  return Type.Object(schema.properties, { ...schema, additionalProperties: false });
}

export const UnpauseBody = Type.Object({
  backfill: Type.Optional(Flag('Export the intervals that were missed while paused.')),
  retry_missing: Type.Optional(
    Flag(
      'Export the requested intervals that have no data: those whose runs failed before the pause stay without data otherwise.',
    ),
  ),
  dry_run: Type.Optional(Flag('Only return what these options would export. Nothing changes.')),
});

export const UnpausePreview = Resource(
  'UnpausePreview',
  'What an unpause leaves out, unless its options ask for it.',
  {
    dry_run: Type.Literal(true),
    missed_intervals: Int('Intervals that were missed in this pause: `backfill` exports them.'),
    missed: Type.Array(Type.Object({ start: Time, end: Time }), {
      description: 'Their ranges, oldest first.',
    }),
    missing: Missing,
  },
);
