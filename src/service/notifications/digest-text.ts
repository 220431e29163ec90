import type { Notification, NotificationType } from '../../foundation/domain/notification.ts';
import type { Timestamp } from '../../foundation/domain/time.ts';
import { oneLine } from '../../foundation/domain/one-line.ts';
import { exportsLink } from './page-links.ts';

/** The facts of a digest, as the database wrote them (store/notifications/notification-digests.ts). */
interface DigestFacts {
  readonly type: NotificationType;
  /** How many events it has, one per export. */
  readonly count: number;
  readonly first_at: Timestamp;
  readonly last_at: Timestamp;
  readonly errors: readonly { readonly code: string; readonly count: number }[];
  /** The projects with the most events. */
  readonly projects: readonly { readonly id: number; readonly count: number }[];
  /** The first ones, in their order. */
  readonly events: readonly {
    readonly project_id: number;
    readonly export: { readonly id: string; readonly name: string };
  }[];
}

/** Exports that a text names. */
const named = 10;

const titles: Readonly<Record<NotificationType, (count: number) => string>> = {
  'export.failing': (count) => `${count} exports are failing`,
  'export.retries_exhausted': (count) => `${count} exports: all attempts of a run failed`,
  'export.paused': (count) => `${count} exports were paused automatically`,
  'export.recovered': (count) => `${count} exports work again`,
  'export.late': (count) => `${count} exports are late`,
  'export.on_time': (count) => `${count} exports are on time again`,
  'backfill.completed': (count) => `Backfills of ${count} exports have ended`,
  'export.incomplete': (count) => `${count} exports have intervals without data`,
  'export.complete': (count) => `${count} exports are complete again`,
  'installation.no_workers': () => 'No worker is alive',
  'installation.no_workers_over': () => 'Workers are alive again',
  'verify.failed': (count) => `The files of ${count} exports are not proven`,
  'verify.passed': (count) => `The files of ${count} exports are proven again`,
  // Each is about all that has its cause already.
  'healing.started': (count) => `${count} causes hold up exports`,
  'healing.ended': (count) => `${count} causes are over`,
  'interval.at_risk': (count) => `Deadlines are at risk for ${count} causes`,
  'interval.missed': (count) => `Deadlines were missed for ${count} causes`,
  'interval.delivered_late': (count) => `Data arrived late after ${count} causes`,
};

/** The health that the page shows the exports by. What Sluice pauses has failed, and failing is more urgent. */
const healths: Partial<Record<NotificationType, string>> = {
  'export.failing': 'failing',
  'export.retries_exhausted': 'failing',
  'export.paused': 'failing',
  'export.late': 'late',
  'export.incomplete': 'incomplete',
};

/**
 * A digest for people.
 *
 * @param publicUrl address of the page; null: unknown
 */
export function describeDigest({ facts, projectId }: Notification, publicUrl: string | null) {
  const digest = facts as unknown as DigestFacts;
  const { type, count, errors, projects, events } = digest;
  const names = events
    .slice(0, named)
    .map(({ export: { name }, project_id: project }) => `"${oneLine(name)}" (project ${project})`);
  const more = count > names.length ? [`… and ${count - names.length} more.`] : [];
  const lines = [
    `Between ${digest.first_at} and ${digest.last_at}:`,
    ...names,
    ...more,
    ...(errors.length > 0 ? [`Errors: ${countsOf(errors, ({ code }) => code)}`] : []),
    ...(projects.length > 1 ? [`Projects: ${countsOf(projects, ({ id }) => id)}`] : []),
    `All of them: ${placeOf(type, projectId, publicUrl)}`,
  ];
  return { title: titles[type](count), lines };
}

function countsOf<Counted extends { readonly count: number }>(
  all: readonly Counted[],
  nameOf: (each: Counted) => string | number,
): string {
  const names = all.slice(0, named).map((each) => `${nameOf(each)} (${each.count})`);
  return [...names, ...(all.length > named ? ['…'] : [])].join(', ');
}

function placeOf(
  type: NotificationType,
  projectId: number | null,
  publicUrl: string | null,
): string {
  const health = healths[type];
  if (publicUrl === null) {
    const filter = health === undefined ? '' : `, with the health ${health}`;
    return `on the page of Sluice, under Exports${filter}`;
  }
  return exportsLink(publicUrl, projectId, health);
}
