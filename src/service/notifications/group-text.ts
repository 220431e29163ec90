import type { Turn } from '../../foundation/domain/causes.ts';
import type { Notification } from '../../foundation/domain/notification.ts';
import { oneLine } from '../../foundation/domain/one-line.ts';
import { inSeconds, type Timestamp } from '../../foundation/domain/time.ts';
import { exportLink, exportsLink } from './page-links.ts';

const titles = {
  'healing.started': (what: string) => `No data arrives: ${what}`,
  'healing.ended': (what: string) => `Data arrives again: ${what}`,
  'interval.at_risk': (what: string) => `Deadline at risk: ${what}`,
  'interval.missed': (what: string) => `Deadline missed: ${what}`,
  'interval.delivered_late': (what: string) => `Delivered late: ${what}`,
} as const;

export type GroupType = keyof typeof titles;

export function isGroup(type: Notification['type']): type is GroupType {
  return Object.hasOwn(titles, type);
}

/** The facts of such an event (use-cases/notifications/announce.ts). */
interface GroupFacts {
  /** Only for targets of the installation, and if it is about one customer. */
  readonly organization?: { readonly name: string };
  readonly cause: { readonly code: string | null; readonly means: string | null };
  readonly turn: Turn | null;
  readonly since: Timestamp | null;
  readonly export_count: number;
  readonly interval_count: number;
  /** Null: it is over. */
  readonly next_step: string | null;
  readonly exports: readonly {
    readonly id: string;
    readonly name: string;
    readonly project_id: number;
    readonly intervals: number;
  }[];
}

const turnTexts: Readonly<Record<Turn, string>> = {
  ours: 'Whose turn: the operator of Sluice.',
  source: 'Whose turn: the owner of the source database.',
  customer: 'Whose turn: the owner of the export and its destination.',
};

const named = 10;

/** @param publicUrl address of the page; null: unknown */
export function describeGroup({ type, facts, projectId }: Notification, publicUrl: string | null) {
  const group = facts as unknown as GroupFacts;
  const { cause, turn, since, exports, export_count: count, interval_count: intervals } = group;
  const what = `${plural(intervals, 'interval')} of ${plural(count, 'export')}`;
  const names = exports.slice(0, named).map(({ name }) => `"${oneLine(name)}"`);
  const more = count > names.length ? `, and ${count - names.length} more` : '';
  const lines = [
    ...(group.organization ? [`Customer ${oneLine(group.organization.name)}`] : []),
    ...(cause.code === null ? [] : [`Cause: ${cause.code}. ${cause.means ?? ''}`]),
    ...(since === null ? [] : [`Since ${inSeconds(since)}.`]),
    `Exports: ${names.join(', ')}${more}.`,
    ...(turn === null ? [] : [turnTexts[turn], `Next step: ${group.next_step}`]),
    ...(publicUrl === null ? [] : [linkOf(exports, projectId, publicUrl)]),
  ];
  const title = isGroup(type) ? titles[type](what) : what;
  return { title, lines };
}

/** The remedy, and a link; the link is null if the address of the page is not known. */
export function stepOfGroup({ facts, projectId }: Notification, publicUrl: string | null) {
  const { exports, next_step } = facts as unknown as GroupFacts;
  return { next_step, link: publicUrl === null ? null : linkOf(exports, projectId, publicUrl) };
}

function linkOf(
  exports: GroupFacts['exports'],
  projectId: number | null,
  publicUrl: string,
): string {
  const [only] = exports;
  return only && exports.length === 1
    ? exportLink(publicUrl, only.project_id, only.id)
    : exportsLink(publicUrl, projectId);
}

const plural = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`;
