import { nextStepOf, type Turn, turnOfCode } from '../../foundation/domain/causes.ts';
import { errorCatalogue, isErrorCode } from '../../foundation/domain/errors.ts';
import type { Notification } from '../../foundation/domain/notification.ts';
import { oneLine } from '../../foundation/domain/one-line.ts';
import { inSeconds, type Timestamp } from '../../foundation/domain/time.ts';
import { isGroup, stepOfGroup } from './group-text.ts';
import { exportLink, pageAt } from './page-links.ts';

/** Facts of each event of an export, as the database wrote them. */
interface CommonFacts {
  readonly organization?: { readonly name: string };
  readonly project?: { readonly name: string };
  readonly export?: { readonly id: string };
  readonly code?: string | null;
  readonly error?: { readonly code?: string | null };
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

/** Whose fault it is, who must act, what to do, and where; null: not known. @param publicUrl of the page; null: unknown */
export function contextOf(
  notification: Notification,
  publicUrl: string | null,
): Readonly<Record<string, unknown>> {
  const { type, facts, projectId } = notification;
  const allFacts: CommonFacts = facts;
  const code = codeOf(allFacts);
  const error = code !== null && isErrorCode(code) ? code : null;
  const own = remedies[type] ?? null;
  const common = {
    fault: error && errorCatalogue[error].fault,
    turn: turnOfEvent(type, code),
  };
  if (type === 'test') return common;
  if (isGroup(type)) {
    const { next_step: remedy, link } = stepOfGroup(notification, publicUrl);
    return { ...common, remedy, link };
  }
  const about = allFacts.export;
  return {
    ...common,
    // The cause is over: what is left is to export the intervals.
    remedy:
      isOver(type) || type === 'export.incomplete' || error === null ? own : nextStepOf(error),
    link: linkOf(publicUrl, projectId, about?.id),
  };
}

/** An event that says that a fault is over: no action is needed. */
const isOver = (type: Notification['type']): boolean =>
  [
    'export.recovered',
    'export.on_time',
    'export.complete',
    'verify.passed',
    'load.agrees',
  ].includes(type);

function turnOfEvent(type: Notification['type'], code: string | null): Turn | null {
  if (isOver(type)) return null;
  if (code !== null) return turnOfCode(code);
  // The owner of the export can retry what was lost, also if it is not known why.
  if (type === 'export.incomplete') return 'customer';
  return remedies[type] === undefined ? null : 'ours';
}

/** The remedy of an event that no error explains. */
const remedies: Partial<Record<Notification['type'], string>> = {
  'export.incomplete':
    'Export the intervals without data again: on the page of the export, or by `sluice backfill <export> --from <time> --reprocess missing`. What heals runs by itself.',
  'export.late': 'Look whether workers run, and whether they have enough capacity.',
  'verify.failed':
    'Run `sluice verify --export <id>` with the id of the export: it prints what is wrong and the remedy.',
  'installation.no_workers': 'Start a worker.',
};

function linkOf(
  publicUrl: string | null,
  projectId: number | null,
  exportId: string | undefined,
): string | null {
  if (publicUrl === null) return null;
  if (exportId === undefined) return pageAt(publicUrl);
  return projectId === null ? null : exportLink(publicUrl, projectId, exportId);
}

export function contextLines({ facts, type }: Notification): readonly string[] {
  const allFacts: CommonFacts = facts;
  const { organization, project, since, missing_intervals: missing } = allFacts;
  const code = codeOf(allFacts);
  const turn = turnOfEvent(type, code);
  return [
    ...(organization && project
      ? [`Customer ${oneLine(organization.name)}, project ${oneLine(project.name)}`]
      : []),
    ...(turn === null ? [] : [`Whose turn: ${turnNames[turn]}`]),
    ...(allFacts.export && since && !isOver(type) ? [`Since ${inSeconds(since)}`] : []),
    ...(missing !== undefined && missing > 0 && type !== 'export.recovered'
      ? [`Intervals without data: ${missing}`]
      : []),
  ];
}
