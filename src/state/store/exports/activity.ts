import { isDeepStrictEqual } from 'node:util';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { command, inPages, queryNumber, queryRows } from '../database/statement.ts';
import { upToPageBytes } from '../database/lists.ts';
import { prepared } from '../database/prepared.ts';

/** One changed field; a secret shows only that it changed. */
export interface Change {
  readonly field: string;
  readonly before: unknown;
  readonly after: unknown;
}

export interface NewActivity {
  /** Null: the whole installation. */
  readonly organizationId: string | null;
  readonly teamId: number | null;
  readonly subjectType:
    | 'batch_export'
    | 'transformation_config'
    | 'plugin'
    | 'api_key'
    | 'organization'
    | 'project'
    | 'era'
    | 'notification_target';
  readonly subjectId: string;
  /** `created`, `updated`, `paused` …, past tense. */
  readonly action: string;
  readonly keyId: string | null;
  readonly changes: readonly Change[];
}

export interface Activity {
  readonly id: number;
  readonly action: string;
  readonly keyId: string | null;
  readonly keyName: string | null;
  readonly changes: readonly Change[];
  readonly happenedAt: Timestamp;
}

/** SQL for a statement with other effects. @param before its parameters before ours @param from no row there, no activity */
export const activityInsertion = (before: number, from = ''): string =>
  `insert into activity (organization_id, team_id, subject_type, subject_id, action, key_id, changes)
   select ${[1, 2, 3, 4, 5, 6, 7].map((n) => `$${before + n}`).join(', ')} ${from}`;

export const activityValues = (activity: NewActivity): unknown[] => [
  activity.organizationId,
  activity.teamId,
  activity.subjectType,
  activity.subjectId,
  activity.action,
  activity.keyId,
  JSON.stringify(shortenChanges(activity.changes)),
];

export function newActivity(
  { organizationId, keyId }: Pick<NewActivity, 'organizationId' | 'keyId'>,
  action: string,
  subjectType: NewActivity['subjectType'],
  { id, teamId = null }: { readonly id: string | number; readonly teamId?: number | null },
  changes: readonly Change[] = [],
): NewActivity {
  return { organizationId, teamId, subjectType, subjectId: String(id), action, keyId, changes };
}

/** The fields that differ between two states of a record. */
export const changesIn = <T>(
  fields: readonly (keyof T & string)[],
  before: T,
  after: T,
): Change[] =>
  fields
    .filter((field) => !isDeepStrictEqual(before[field], after[field]))
    .map((field) => ({ field, before: before[field], after: after[field] }));

const recording = prepared(activityInsertion(0));

export async function recordActivity(
  tx: Sql,
  ...activity: Parameters<typeof newActivity>
): Promise<void> {
  await tx.query(recording, activityValues(newActivity(...activity)));
}

const recordingOnce = prepared(
  `${activityInsertion(0)} on conflict (subject_id, key_id, date_trunc('hour', happened_at at time zone 'UTC'))
     where action = 'viewed by an operator' do nothing`,
);

/** Records an activity unless the key has one for the same subject in this hour, in UTC. */
export const recordOncePerHour = command(
  recordingOnce,
  (activity: NewActivity & { readonly action: 'viewed by an operator' }) =>
    activityValues(activity),
);

/** Maximum size of an entry's changes. */
const maxChangesBytes = 8 * 1024;

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '');

/** Changes that are too large show only the beginnings of their largest values, and the sizes of these. */
function shortenChanges(changes: readonly Change[]): readonly Change[] {
  if (bytesOf(changes) <= maxChangesBytes) return changes;
  const values = changes.flatMap(({ before, after }) => [before, after]);
  const share = maxChangesBytes / (values.length + 1);
  const large = values.filter((value) => bytesOf(value) > share);
  const rest = changes.map(({ field, before, after }) => ({
    field,
    before: bytesOf(before) > share ? null : before,
    after: bytesOf(after) > share ? null : after,
  }));
  const bytesEach = (maxChangesBytes - bytesOf(rest)) / large.length;
  const shorten = (value: unknown) =>
    bytesOf(value) > share ? beginning(value, bytesEach) : value;
  return changes.map(({ field, before, after }) => ({
    field,
    before: shorten(before),
    after: shorten(after),
  }));
}

/** A character of JSON has up to three bytes in JSON again; the note about the size has fewer than 30. */
function beginning(value: unknown, bytes: number): string {
  const text = JSON.stringify(value) ?? '';
  const length = Math.max(0, Math.floor((bytes - 30) / 3));
  return `${text.slice(0, length)}… (${bytesOf(value)} bytes)`;
}

type Subject = Pick<NewActivity, 'subjectType' | 'subjectId'>;

const ofSubject = `select a.*, octet_length(a.changes::text) as size from activity a
      where a.subject_type = $1 and a.subject_id = $2 order by a.id desc limit $3 offset $4`;

export const listActivity = inPages(
  queryNumber(
    'select count(*) from activity where subject_type = $1 and subject_id = $2',
    ({ subjectType, subjectId }: Subject) => [subjectType, subjectId],
  ),
  queryRows<Activity, [subject: Subject, limit: number, offset: number]>(
    `select a.id, a.action, a.key_id as "keyId", k.name as "keyName", a.changes, a.happened_at as "happenedAt"
         from ${upToPageBytes(ofSubject, 'page.id desc')} a left join api_keys k on k.id = a.key_id
        order by a.id desc`,
    ({ subjectType, subjectId }, limit, offset) => [subjectType, subjectId, limit, offset],
  ),
);
