import type { Timestamp } from '../domain/time.ts';
import type { Sql } from './database.ts';
import type { OffsetPage, PageRequest } from './lists.ts';

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
  readonly subjectType: 'batch_export' | 'transformation_config' | 'plugin' | 'api_key' | 'era';
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

export async function recordActivity(tx: Sql, activity: NewActivity): Promise<void> {
  await tx.query(
    `insert into activity (organization_id, team_id, subject_type, subject_id, action, key_id, changes)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [
      activity.organizationId,
      activity.teamId,
      activity.subjectType,
      activity.subjectId,
      activity.action,
      activity.keyId,
      JSON.stringify(activity.changes),
    ],
  );
}

/** Newest first. */
export async function listActivity(
  sql: Sql,
  subject: Pick<NewActivity, 'subjectType' | 'subjectId'>,
  page: PageRequest,
): Promise<OffsetPage<Activity>> {
  const values = [subject.subjectType, subject.subjectId];
  const [[total], results] = await Promise.all([
    sql.query<{ count: number }>(
      'select count(*) from activity where subject_type = $1 and subject_id = $2',
      values,
    ),
    sql.query<Activity>(
      `select a.id, a.action, a.key_id as "keyId", k.name as "keyName", a.changes, a.happened_at as "happenedAt"
         from activity a left join api_keys k on k.id = a.key_id
        where a.subject_type = $1 and a.subject_id = $2 order by a.id desc limit $3 offset $4`,
      [...values, page.limit, page.offset],
    ),
  ]);
  return { count: total?.count ?? 0, results };
}
