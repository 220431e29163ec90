import { nextStepOf, type Turn, turnOfCode } from '../../foundation/domain/causes.ts';
import { errorCatalogue, isErrorCode } from '../../foundation/domain/errors.ts';
import type { Notification } from '../../foundation/domain/notification.ts';
import { oneLine } from '../../foundation/domain/one-line.ts';
import { inSeconds, type Timestamp } from '../../foundation/domain/time.ts';
import { describeGroup, type GroupType, isGroup, stepOfGroup } from './group-text.ts';
import { exportLink, pageAt } from './page-links.ts';

/** @param publicUrl address of the page; null: unknown */
export function jsonBody(notification: Notification, publicUrl: string | null): string {
  return JSON.stringify({
    id: notification.eventId,
    type: notification.type,
    timestamp: notification.happenedAt,
    organization_id: notification.organizationId,
    project_id: notification.projectId,
    data: { ...contextOf(notification, publicUrl), ...notification.facts },
  });
}

/** For Slack's incoming webhooks, and those who take the same. */
export function slackBody(notification: Notification, publicUrl: string | null): string {
  const { title, lines } = describe(notification, publicUrl);
  return JSON.stringify({
    text: [`*${escapeMarkup(title)}*`, ...lines.map(escapeMarkup)].join('\n'),
  });
}

/** Slack reads three characters as markup. Others mention by `@all`, so a space of no width follows each `@`. */
function escapeMarkup(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('@', '@\u200b');
}

/** @param publicUrl address of the page; null: unknown */
export function emailText(
  notification: Notification,
  publicUrl: string | null,
): { subject: string; text: string } {
  const { title, lines } = describe(notification, publicUrl);
  const subject = `[Sluice] ${oneLine(describe(withPlainName(notification), publicUrl).title)}`;
  return { subject, text: [title, ...lines, '', `Event: ${notification.eventId}`, ''].join('\n') };
}

/** A name of a tenant in a subject must not look like an address or a link: letters, digits and few signs only. */
const plainName = /^[\p{L}\p{M}\p{N} _()#&+,-]{1,100}$/u;

function withPlainName(notification: Notification): Notification {
  const facts: Facts = notification.facts;
  if (!facts.export || plainName.test(facts.export.name)) return notification;
  const { id } = facts.export;
  return { ...notification, facts: { ...facts, export: { id, name: id } } };
}

interface Description {
  readonly title: string;
  readonly lines: readonly string[];
}

/** The most characters of an error. It may quote what a store or a row says. */
const maxDetail = 2_000;

/** The parts of `facts` that texts need. The database wrote them. */
interface Facts {
  readonly export?: { readonly id: string; readonly name: string };
  readonly run?: { readonly data_interval_start: Timestamp; readonly data_interval_end: Timestamp };
  readonly error?: { readonly code?: string | null; readonly detail: string | null };
  readonly cause?: { readonly code: string | null };
  readonly reason?: string;
  readonly since?: Timestamp | null;
  readonly failing_since?: Timestamp;
  readonly missing_intervals?: number;
  readonly detail?: string;
  readonly high_water_mark?: Timestamp | null;
  readonly late_since?: Timestamp;
  readonly acknowledged?: {
    readonly number: number;
    readonly rows: number;
    readonly rows_of_balance: number;
  };
  readonly backfill?: {
    readonly start_at: Timestamp;
    readonly end_at: Timestamp;
    readonly total_runs: number;
    readonly failed_runs: number;
  };
}

const timeOf = (at: Timestamp | null | undefined): string =>
  at ? inSeconds(at) : 'an unknown time';

export function describe(notification: Notification, publicUrl: string | null): Description {
  const facts: Facts = notification.facts;
  const name = facts.export ? `"${oneLine(facts.export.name)}"` : '';
  const where = facts.export ? placeOf(facts.export.id, notification.projectId, publicUrl) : [];
  if (isGroup(notification.type)) return describeGroup(notification, publicUrl);
  const [title, lines] = words(notification.type, facts, name);
  return { title, lines: [...contextLines(notification), ...lines, ...where] };
}

function placeOf(id: string, projectId: number | null, publicUrl: string | null): string[] {
  const place = `Export ${id}, project ${projectId}`;
  if (publicUrl === null || projectId === null) return [place];
  return [place, exportLink(publicUrl, projectId, id)];
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of texts
function words(
  type: Exclude<Notification['type'], GroupType>,
  facts: Facts,
  name: string,
): readonly [string, readonly string[]] {
  const interval = facts.run
    ? [
        `Interval ${timeOf(facts.run.data_interval_start)} to ${timeOf(facts.run.data_interval_end)}`,
      ]
    : [];
  const error = facts.error?.detail ? [oneLine(facts.error.detail, maxDetail)] : [];
  switch (type) {
    case 'export.failing':
      return [`Export ${name} is failing`, [...interval, ...error]];
    case 'export.retries_exhausted':
      return [`Export ${name}: all attempts of a run failed`, [...interval, ...error]];
    case 'export.paused':
      return [
        `Export ${name} was paused automatically`,
        [
          'Its schedule waits. Fix the cause: the first interval that heals ends the pause. If none heals, unpause the export.',
          oneLine(facts.reason ?? '', maxDetail),
        ],
      ];
    case 'export.recovered': {
      const missing = facts.missing_intervals ?? 0;
      const since = `It was failing since ${timeOf(facts.failing_since)}.`;
      const rest =
        missing === 0
          ? 'No requested interval is without data.'
          : `Requested intervals that still have no data: ${missing}.`;
      return [`Export ${name} works again`, [since, rest]];
    }
    case 'export.late': {
      const mark = facts.high_water_mark ?? null;
      const state =
        mark === null ? 'It has no complete interval yet.' : `It is complete up to ${mark}.`;
      return [`Export ${name} is late`, [`Late since ${timeOf(facts.late_since)}.`, state]];
    }
    case 'export.on_time':
      return [
        `Export ${name} is on time again`,
        [
          `It was late since ${timeOf(facts.late_since)}. It is complete up to ${timeOf(facts.high_water_mark)}.`,
        ],
      ];
    case 'backfill.completed': {
      const { backfill } = facts;
      const range = `Range ${timeOf(backfill?.start_at)} to ${timeOf(backfill?.end_at)}`;
      const runs = `Runs: ${backfill?.total_runs}, of them failed: ${backfill?.failed_runs}`;
      return [`A backfill of export ${name} has ended`, [range, runs]];
    }
    case 'export.incomplete':
      return [
        `Export ${name} has intervals without data`,
        [
          'Its newest runs work, and the schedule does not run these intervals again. What heals runs by itself. Retry the others.',
        ],
      ];
    case 'export.complete':
      return [`Export ${name} is complete again`, []];
    case 'load.differs': {
      const { number, rows, rows_of_balance: owed } = facts.acknowledged ?? {};
      return [
        `The receiver of export ${name} holds another number of rows`,
        [
          `It says ${rows} rows after statement ${number}, whose balance is ${owed}. It has lost or doubled rows: check what it loads, for example with sluice-reader.`,
        ],
      ];
    }
    case 'load.agrees':
      return [`The receiver of export ${name} holds the rows of its statement again`, []];
    case 'verify.failed':
      return [
        `The files of export ${name} are not proven`,
        [oneLine(facts.detail ?? ''), '`sluice verify --last` prints the whole result.'],
      ];
    case 'verify.passed':
      return [`The files of export ${name} are proven again`, []];
    case 'installation.no_workers':
      return [
        'No worker is alive',
        ['Runs are recorded and wait. Start a worker.', `Since ${timeOf(facts.since)}`],
      ];
    case 'installation.no_workers_over':
      return ['Workers are alive again', [`None was since ${timeOf(facts.since)}.`]];
    case 'test':
      return ['A test of this notification target', ['Somebody pressed "Test". All is well.']];
  }
}

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
function contextOf(
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

function contextLines({ facts, type }: Notification): readonly string[] {
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
