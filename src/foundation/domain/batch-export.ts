import type { Cadence } from './cadence.ts';
import { maxMissingCounted, type MissingIntervals } from './coverage.ts';
import type { ExportSettings } from './export-settings.ts';
import type { DestinationConfig } from './file-settings.ts';
import type { PropertyFilter } from './property-filter.ts';
import type { Schedule } from './schedule.ts';
import { type Instant, inSeconds, type Timestamp, toTimestamp } from './time.ts';

/** A destination as stored: `config` without its secrets, which are sealed beside it. */
export interface StoredDestination {
  readonly type: string;
  readonly config: DestinationConfig;
  readonly secrets: Buffer | null;
  /** Which secrets it has, with the end of the id of a key; absent or null: not known, or none. */
  readonly secretEnds?: Readonly<Record<string, string | null>> | null;
}

/** A named, scheduled job that ships one model's rows to one destination. */
export interface BatchExport extends ExportSettings {
  readonly id: string;
  readonly teamId: number;
  readonly name: string;
  readonly destination: StoredDestination;
  readonly cadence: Cadence;
  readonly model: string;
  readonly dslQuery: string | null;
  readonly querySchema: unknown;
  /** Filters whose conditions are in the query. */
  readonly filters: readonly PropertyFilter[] | null;
  readonly transformations: boolean;
  readonly paused: boolean;
  readonly lastPausedAt: Timestamp | null;
  /** Sluice's words about its own pause; null: it is not paused, or a person paused it. */
  readonly pausedReason: string | null;
  /** The code of that: of the error, or one of `disabled`. */
  readonly pausedCode: string | null;
  readonly startAt: Timestamp | null;
  readonly endAt: Timestamp | null;
  /** Since when its data is late; as the last check found it. */
  readonly lateSince: Timestamp | null;
  readonly createdAt: Timestamp;
  readonly lastUpdatedAt: Timestamp;
  readonly schedule: Schedule;
  readonly highWaterMark: Instant | null;
  readonly failureStreak: number;
  readonly lastSuccessAt: Timestamp | null;
}

export interface PauseReason {
  readonly code: string;
  readonly text: string;
}

/** Why an export is paused whose tenant is disabled. Only enabling the tenant ends such a pause. */
export const disabled = {
  organization: {
    code: 'organization.disabled',
    text: 'An operator has disabled the organization.',
  },
  project: { code: 'project.disabled', text: 'An operator has disabled the project.' },
} as const satisfies Record<string, PauseReason>;

export const disabledCodes: readonly string[] = Object.values(disabled).map(({ code }) => code);

/** The needs of an export, the most urgent first. An export has exactly one. */
export const exportHealths = ['failing', 'late', 'incomplete', 'paused', 'fine'] as const;

/**
 * `failing`: its newest outcome is a failure. `late`: an interval has missed its deadline and has not arrived; without a
 * deadline, the data is more than two intervals old. `incomplete`: intervals have no data. `paused`: by a person, whatever else
 * it is, or by Sluice after failures that are over. `fine`: none of these.
 */
export type ExportHealth = (typeof exportHealths)[number];

export interface HealthFacts {
  readonly health: ExportHealth;
  /** The error of the newest run that ended without success; null unless the export is failing. */
  readonly failure: string | null;
  readonly missing: MissingIntervals;
}

/** Why an export has its health, in one sentence; null if it is fine. */
export function reasonOf(
  batchExport: Pick<
    BatchExport,
    'pausedReason' | 'deadlineMinutes' | 'deadlineAt' | 'lateSince' | 'highWaterMark' | 'createdAt'
  >,
  { health, failure, missing }: HealthFacts,
): string | null {
  switch (health) {
    case 'failing':
      return failure ?? 'The newest run that ended has failed. Its log says why.';
    case 'late':
      return describeLateness(batchExport);
    case 'incomplete': {
      const { count, since } = missing;
      const least = count >= maxMissingCounted ? 'At least ' : '';
      const have = count === 1 ? '1 requested interval has' : `${count} requested intervals have`;
      return `${least}${have} no data, the oldest since ${since === null ? 'an unknown time' : inSeconds(toTimestamp(since))}.`;
    }
    case 'paused':
      return batchExport.pausedReason === null
        ? 'A person paused it.'
        : `Sluice paused it: ${batchExport.pausedReason}`;
    case 'fine':
      return null;
  }
}

function describeLateness({
  deadlineMinutes,
  deadlineAt,
  lateSince,
  highWaterMark: mark,
  createdAt,
}: Parameters<typeof reasonOf>[0]): string {
  const upTo =
    mark === null
      ? `No interval is complete since it was created, ${inSeconds(createdAt)}`
      : `It is complete only up to ${inSeconds(toTimestamp(mark))}`;
  const since = lateSince === null ? '' : ` since ${inSeconds(lateSince)}`;
  const isMissed = deadlineMinutes !== null || deadlineAt !== null;
  return `${upTo}. ${isMissed ? 'It misses its deadline' : 'It is late'}${since}.`;
}
