export type Interval = 'hour' | 'day' | 'week' | `every ${EveryMinutes} minutes`;
export type EveryMinutes = 1 | 5 | 10 | 15 | 20 | 30;

export const everyMinutes: readonly EveryMinutes[] = [1, 5, 10, 15, 20, 30];

export const intervals: readonly Interval[] = [
  'hour',
  'day',
  'week',
  ...everyMinutes.map((n) => `every ${n} minutes` as const),
];

/** `hour` and `every N minutes` tick at multiples since the Unix epoch. `day` and `week` tick in local time; `offsetDay` 0 is Sunday. */
export interface Cadence {
  readonly interval: Interval;
  readonly timezone: string;
  /** 0–6, 0 = Sunday; week only, else null. */
  readonly offsetDay: number | null;
  /** 0–23; day and week only, else null. */
  readonly offsetHour: number | null;
}
