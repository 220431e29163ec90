import { type Static, Type } from 'typebox';
import { deliveryOutcomes } from '../../../foundation/domain/delivery.ts';
import { NullableTurn } from '../batch-exports/schema.ts';
import { Nullable, named, Time } from '../schemas/shapes.ts';

export const DeliveryQuery = Type.Object({
  window: Type.Optional(
    Type.String({
      default: '30d',
      description:
        'How far back: a number and h, d or w. Intervals that ended in it count. At most 366d.',
    }),
  ),
  target: Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: 100,
      default: 99,
      description: 'Share of deadlines that should be met, in percent: what the budget is of.',
    }),
  ),
  format: Type.Optional(
    Type.Enum(['json', 'csv'], {
      default: 'json',
      description:
        'csv: one line per interval, with the columns data_interval_start, data_interval_end, due_by, delivered_at, outcome, code and turn.',
    }),
  ),
});

const JudgedInterval = Type.Object({
  data_interval_start: Time,
  data_interval_end: Time,
  due_by: Time,
  delivered_at: Nullable({
    ...Time,
    description: 'When its first files were committed; null: not yet.',
  }),
  outcome: Type.Enum([...deliveryOutcomes]),
  code: Nullable(Type.String({ description: 'The newest error; null: no attempt has failed.' })),
  turn: NullableTurn,
});

export const DeliveryRecord = named(
  'DeliveryRecord',
  Type.Object(
    {
      from: Time,
      to: Time,
      is_cut: Type.Boolean({
        description: 'Whether older intervals are left out: at most 20,000 are judged.',
      }),
      target: Type.Number(),
      met: Type.Integer({ description: 'Delivered by their deadline.' }),
      missed: Type.Integer({
        description: 'Delivered after their deadline, or not delivered although it has passed.',
      }),
      at_risk: Type.Integer({
        description: 'Not delivered, and due within warn_minutes.',
      }),
      pending: Type.Integer({ description: 'Not delivered, with a deadline in the future.' }),
      share_met: Nullable(
        Type.Number({ description: 'Of met and missed, from 0 to 1; null if there are none.' }),
      ),
      budget: Type.Object({
        allowed: Type.Integer({ description: 'Deadlines that may be missed by the target.' }),
        left: Type.Integer({ description: 'Negative if more were missed.' }),
      }),
      late: Type.Array(JudgedInterval, {
        description: 'The newest 1000 intervals that are missed or at risk, oldest first.',
      }),
    },
    { description: 'What became of the deadlines of an export.' },
  ),
);
export type DeliveryRecord = Static<typeof DeliveryRecord>;
