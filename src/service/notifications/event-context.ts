import { type Turn, turnOfCode } from '../../foundation/domain/causes.ts';
import { errorCatalogue, isErrorCode } from '../../foundation/domain/errors.ts';
import type { Notification } from '../../foundation/domain/notification.ts';
import { oneLine } from '../../foundation/domain/one-line.ts';
import type { Timestamp } from '../../foundation/domain/time.ts';
import { isGroup, stepOfGroup } from './group-text.ts';
import { exportLink } from './page-links.ts';

/** What each event of an export has, as the database wrote it. */
interface CommonFacts {
  readonly organization?: { readonly name: string };
  readonly project?: { readonly name: string };
  readonly export?: { readonly id: string };
  readonly code?: string | null;
  readonly error?: { readonly code?: string | null };
  /** The cause of an event about all that has one cause. */
  readonly cause?: { readonly code?: string | null };
  /** Why Sluice paused it: begins with a code. */
  readonly reason?: string | null;
  readonly since?: Timestamp | null;
  readonly missing_intervals?: number;
}

const codeOf = ({ error, cause, code, reason }: CommonFacts): string | null =>
  error?.code ?? cause?.code ?? code ?? /^[a-z_.]+(?=:)/.exec(reason ?? '')?.[0] ?? null;

const turnNames: Readonly<Record<Turn, string>> = {
  ours: 'the operator of Sluice',
  source: 'the owner of the source',
  customer: 'the owner of the export',
};

/**
 * What a receiver wants to know besides the facts: whose fault it is, who must act, what to do, and where. Null: it is about no
 * error, or not known.
 *
 * @param publicUrl address of the page; null: unknown
 */
export function contextOf(
  notification: Notification,
  publicUrl: string | null,
): Readonly<Record<string, unknown>> {
  const { type, facts, projectId } = notification;
  const known: CommonFacts = facts;
  const code = codeOf(known);
  const spec = code !== null && isErrorCode(code) ? errorCatalogue[code] : null;
  const common = {
    fault: spec?.fault ?? null,
    turn: code === null ? null : turnOfCode(code),
  };
  if (type === 'digest' || type === 'test') return common;
  if (isGroup(type)) {
    const { next_step: remedy, link } = stepOfGroup(notification, publicUrl);
    return { ...common, remedy, link };
  }
  const about = known.export;
  return {
    ...common,
    remedy: spec?.remedy ?? null,
    link:
      about && publicUrl !== null && projectId !== null
        ? exportLink(publicUrl, projectId, about.id)
        : null,
  };
}

/** Describes the context in words. */
export function contextLines({ facts, type }: Notification): readonly string[] {
  const known: CommonFacts = facts;
  const { organization, project, since, missing_intervals: missing } = known;
  const code = codeOf(known);
  const isOver = ['export.recovered', 'export.on_time', 'export.complete'].includes(type);
  return [
    ...(organization && project
      ? [`Customer ${oneLine(organization.name)}, project ${oneLine(project.name)}`]
      : []),
    ...(code === null || isOver ? [] : [`Whose turn: ${turnNames[turnOfCode(code)]}`]),
    ...(known.export && since && !isOver ? [`Since ${since}`] : []),
    ...(missing !== undefined && missing > 0 && type !== 'export.recovered'
      ? [`Intervals without data: ${missing}`]
      : []),
  ];
}
