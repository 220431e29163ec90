import { type Static, Type } from 'typebox';
import { Nullable, named, Time } from '../schemas/shapes.ts';

export const SchedulePreview = named(
  'SchedulePreview',
  Type.Object(
    {
      results: Type.Array(
        Type.Object({
          data_interval_start: Time,
          data_interval_end: Time,
          local_start: Type.String({ description: 'With the offset of the zone.' }),
          local_end: Type.String({ description: 'With the offset of the zone.' }),
          timezone: Type.String(),
          hours: Type.Number({ description: 'The length: a day of a clock change has 23 or 25.' }),
          fate: Type.Enum(['ran', 'paused', 'outside_window'], {
            description: 'What will happen to it by the current schedule.',
          }),
        }),
      ),
    },
    { description: 'The next 10 data intervals.' },
  ),
);

export const DestinationTest = named(
  'DestinationTest',
  Type.Object(
    {
      passed: Type.Boolean(),
      steps: Type.Array(
        Type.Object({
          step: Type.String(),
          passed: Type.Boolean(),
          error: Nullable(Type.String({ description: 'What is wrong and what to do.' })),
          warning: Nullable(
            Type.String({ description: 'A guarantee that is weaker at this store.' }),
          ),
        }),
        { description: 'In the order of the checks. They end at the first that fails.' },
      ),
    },
    { description: 'The checks of a destination, one by one.' },
  ),
);

export const Row = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
});
const Value = Type.Unsafe<unknown>({});

const TracedRow = Type.Object({
  row: Row,
  result: Nullable({ ...Row, description: 'The row as it would be exported; null if it left.' }),
  steps: Type.Array(
    Type.Object({
      step: Type.Integer({ description: 'Id of its config, or its place in configs.' }),
      name: Type.String(),
      fate: Type.Enum(['kept', 'dropped', 'rejected']),
      error: Nullable(Type.String()),
      changes: Type.Array(
        Type.Object({
          path: Type.String(),
          kind: Type.Enum(['added', 'removed', 'changed'], {
            description:
              '`added`: the value did not exist before. `removed`: the value no longer exists.',
          }),
          before: Value,
          after: Value,
        }),
        { description: 'Columns, and properties of JSON columns, that it changed.' },
      ),
      microseconds: Type.Integer(),
    }),
  ),
});

export const RowPreview = named(
  'RowPreview',
  Type.Object(
    {
      columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
      rows: Type.Array(Type.Array(Value), {
        description: 'Values in the order of the columns. Empty with a trace.',
      }),
      trace: Type.Unsafe<readonly Static<typeof TracedRow>[] | null>({
        type: ['array', 'null'],
        items: TracedRow,
        description: 'What each step does to each row. Null without a trace.',
      }),
      left_out: Nullable(
        Type.String({
          description:
            'What the answer leaves out, in a sentence. Null: nothing. An answer has at most 16 MiB of values. The first rows of a trace get the room first, or the newest rows without one.',
        }),
      ),
    },
    { description: 'Rows as they would be exported.' },
  ),
);

export const Activity = named(
  'Activity',
  Type.Object(
    {
      id: Type.Integer(),
      action: Type.String({ description: 'created, updated, paused, unpaused, deleted …' }),
      key_id: Nullable(Type.String({ format: 'uuid', description: 'The API key of the request.' })),
      key_name: Nullable(Type.String()),
      changes: Type.Array(
        Type.Object({
          field: Type.String(),
          before: Type.Unsafe<unknown>({}),
          after: Type.Unsafe<unknown>({}),
        }),
        {
          description:
            'Values of secrets are masked. Of changes over 8 KiB, large values show only their beginning.',
        },
      ),
      happened_at: Time,
    },
    { description: 'Who changed what, and when.' },
  ),
);
