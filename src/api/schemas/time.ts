import { Type } from 'typebox';

/** A time: out in UTC with microseconds, in as any ISO 8601; without an offset it is UTC. */
export const Time = Type.String({
  format: 'date-time',
  examples: ['2024-03-01T00:00:00.000000Z'],
});
