import { createHash } from 'node:crypto';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { canonicalBytes, canonicalizable } from '../../../foundation/domain/canonical-json.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { commonFolder } from '../../../foundation/domain/key-template.ts';
import { orNotFound, Refusal, Throttled } from '../../../foundation/domain/problem.ts';
import { withReceipt } from '../../../foundation/domain/signature.ts';
import {
  type Acknowledgement,
  balanceOf,
  cannotReconcile,
  nameOfPlace,
  noSum,
  type Reconciliation,
  type StatementPlace,
} from '../../../foundation/domain/statement.ts';
import { type Timestamp, toTimestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { currentEra } from '../../../state/store/database/eras.ts';
import { lockExport } from '../../../state/store/exports/exports.ts';
import { listFormerDestinations } from '../../../state/store/files/former-destinations.ts';
import {
  findAcceptance,
  findRemovalRequest,
  forgetStated,
  listUnbooked,
  storeBooked,
} from '../../../state/store/intervals/statement-changes.ts';
import {
  advanceChain,
  findBalance,
  findFirstPeriod,
  findWaitMs,
  insertStatement,
  listEnabledSteps,
  lockChain,
  notifyOfLoad,
  storeAcknowledgement,
} from '../../../state/store/intervals/statements.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import { nextBoundary } from '../../scheduling/boundary.ts';
import { jitterMs } from '../../scheduling/jitter.ts';
import type { Context } from '../context.ts';
import { noteInLog } from '../exports/activity.ts';
import { ensureSigningKey, openSigner } from '../installation/signing.ts';
import { type BookingFacts, bookIntervals } from './book-intervals.ts';

export interface StatementSources {
  /** @param prefix the part of the destination's prefix that all intervals share */
  placeOf(type: string, config: DestinationConfig, prefix: string): StatementPlace;
  /** A model as the models file has it, and which server it is read from. */
  modelOf(name: string): {
    readonly definition: unknown;
    readonly source: { readonly server: string | null; readonly database: string | null };
  };
}

/** A statement is held in memory whole, and put in one request. What does not fit is in the next one. */
const maxIntervals = 4_000;
/** So long after midnight, so that the runs of the day before have ended, and installations do not put all at once. */
const afterMidnightMs = 15 * 60_000;
const spreadSeconds = 2_700;

/** The place of an export: bookings and statements are about it. */
export function placeOfExport(
  sources: Pick<StatementSources, 'placeOf'>,
  { id, model, destination }: Pick<BatchExport, 'id' | 'model' | 'destination'>,
  config: DestinationConfig = destination.config,
): StatementPlace {
  const constants = { table: model, batchExportId: id };
  const prefix = commonFolder(readFileSettings(config).prefix, constants);
  return sources.placeOf(destination.type, config, prefix);
}

/**
 * Its number and its bytes are decided here, under a lock, so every process puts the same.
 * @param reconciliation null: a person asks for the statement
 * @returns `isCut` is true if there is more to book at once
 * @throws Refusal (404) if the export was deleted, (429) if people ask too often; SluiceError `secrets.signing_key_lost`
 */
export async function makeStatement(
  { db, secrets }: Pick<Context, 'db' | 'secrets'>,
  sources: StatementSources,
  exportId: string,
  reconciliation: Reconciliation | null = null,
) {
  await ensureSigningKey({ db, secrets });
  return db.transaction(async (tx) => {
    // In this order everywhere.
    const batchExport = orNotFound(await lockExport(tx, exportId));
    const chain = orNotFound(await lockChain(tx, exportId));
    if (reconciliation === null) await refuseTooMany(tx, exportId);
    const sign = await openSigner(tx, secrets);
    const now = await readNow(tx);
    const isFirst = chain.number === 0 || chain.begins !== null;
    if (chain.begins !== null) await forgetStated(tx, exportId);
    const began =
      chain.beganAt ??
      (await findFirstPeriod(tx, exportId)) ??
      toTimestamp(batchExport.schedule.openIntervalStart);
    const start = isFirst ? began : (chain.periodEnd ?? began);
    const unbooked = await listUnbooked(tx, exportId, start, maxIntervals);
    const facts = await factsOf(tx, sources, batchExport);
    const period = { began, end: start };
    const { bookings, intervals, end } = await bookIntervals(unbooked, period, facts);
    await storeBooked(tx, exportId, intervals);
    const opening = isFirst ? noSum : (chain.closing ?? noSum);
    const balance = balanceOf(opening, bookings);
    const number = chain.number + 1;
    const place = placeOfExport(sources, batchExport);
    const isTable = batchExport.destination.config.table_format === 'iceberg';
    const statement = {
      type: 'sluice.statement.v1',
      batch_export_id: exportId,
      number,
      previous: chain.number === 0 ? null : { number: chain.number, sha256: chain.sha256 },
      begins: chain.begins ?? (isFirst ? 'first' : null),
      made_at: toTimestamp(now),
      era: (await currentEra(tx)).id,
      place: {
        ...{ name: nameOfPlace(place), prefix: place.prefix },
        ...(isTable && { table: 'iceberg' }),
      },
      period: { start, end },
      schedule: scheduleOf(batchExport),
      ...(await definitionOf(tx, sources, batchExport)),
      bookings,
      balance,
      reconciliation: reconciliation ?? cannotReconcile(onDemand),
      acknowledged: chain.acknowledged,
    };
    const body = canonicalBytes(withReceipt(statement, sign));
    const sha256 = createHash('sha256').update(body).digest('hex');
    await insertStatement(tx, exportId, { number, body, sha256 });
    const isCut = unbooked.length === maxIntervals;
    const after = { number, sha256, beganAt: began };
    await advanceChain(tx, exportId, after, isCut ? toTimestamp(now) : nextAfter(batchExport, now));
    return { number, sha256, isCut };
  });
}

const onDemand = 'only statements of the schedule are reconciled';
/** Statements stay for ever. */
const mostPerHour = 10;

async function refuseTooMany(tx: Sql, exportId: string): Promise<void> {
  const waitMs = await findWaitMs(tx, exportId, mostPerHour);
  if (waitMs === null) return;
  const detail = `An export makes at most ${mostPerHour} statements per hour. The newest one is at statements/head.`;
  throw new Throttled(detail, Math.max(1_000, waitMs));
}

/** A statement for each day, in the time zone of the export. */
function nextAfter({ id, cadence: { timezone } }: BatchExport, now: number): Timestamp {
  const daily = { interval: 'day', timezone, offsetDay: null, offsetHour: 0 } as const;
  const delay = afterMidnightMs + jitterMs(id, daily, spreadSeconds);
  return toTimestamp(nextBoundary(daily, now - delay) + delay);
}

function scheduleOf({ cadence, mode, keepSnapshots }: BatchExport) {
  const { interval, timezone, offsetDay, offsetHour } = cadence;
  return {
    interval,
    timezone,
    offset_seconds: ((offsetDay ?? 0) * 24 + (offsetHour ?? 0)) * 3_600,
    ...(mode !== 'append' && { mode }),
    ...(mode === 'snapshot' && { keep_snapshots: keepSnapshots }),
  };
}

const digestOf = (value: unknown): string =>
  createHash('sha256').update(canonicalBytes(value)).digest('hex');

async function definitionOf(tx: Sql, sources: StatementSources, batchExport: BatchExport) {
  const { definition, source } = sources.modelOf(batchExport.model);
  const { dslQuery, transformations: isTransformed, teamId, destination } = batchExport;
  const { includeEvents, excludeEvents } = readFileSettings(destination.config);
  const steps = isTransformed ? await listEnabledSteps(tx, teamId) : [];
  const text = {
    model: canonicalizable(definition),
    query: { dsl_query: dslQuery, include_events: includeEvents, exclude_events: excludeEvents },
    transformations: canonicalizable(steps),
  };
  return {
    source,
    definition: {
      model: digestOf(text.model),
      query: digestOf(text.query),
      transformations: digestOf(text.transformations),
      text: batchExport.statementShows === 'definition' ? text : null,
    },
  };
}

async function factsOf(
  tx: Sql,
  sources: StatementSources,
  batchExport: BatchExport,
): Promise<BookingFacts> {
  const { id, destination } = batchExport;
  const former = await listFormerDestinations(tx, id);
  const configs = new Map(former.map(({ version, config }) => [version, config]));
  return {
    placeOf(version, key, before) {
      const config = configs.get(version) ?? destination.config;
      const place = placeOfExport(sources, batchExport, config);
      if (key === null || place.prefix === '' || key.startsWith(`${place.prefix}/`)) {
        return nameOfPlace(place);
      }
      // The prefix was another one when it was made.
      const folder = key.slice(0, Math.max(0, key.lastIndexOf('/')));
      return before ?? nameOfPlace(sources.placeOf(destination.type, config, folder));
    },
    acceptance: (interval) => findAcceptance(tx, id, interval),
    removal: (runId) => findRemovalRequest(tx, id, runId),
  };
}

/**
 * Stores what a receiver has loaded. The next statement shows it. Both sides hear of a receiver that begins to hold another
 * number of rows than it should, and of the end of that.
 *
 * @throws Refusal if there is no such statement, or it has another digest
 */
export async function acknowledge(
  { db }: Pick<Context, 'db'>,
  batchExport: Pick<BatchExport, 'id' | 'teamId'>,
  given: Omit<Acknowledgement, 'at'>,
): Promise<void> {
  const exportId = batchExport.id;
  await db.transaction(async (tx) => {
    // A new chain may replace statements meanwhile.
    const chain = orNotFound(await lockChain(tx, exportId));
    const { number, sha256, rows } = given;
    const owed = await findBalance(tx, exportId, number);
    if (owed === null) {
      const detail = `There is no statement ${number}. Give the number of one that you have loaded.`;
      throw new Refusal({ code: 'does_not_exist', detail, attr: 'number' });
    }
    if (owed.sha256 !== sha256) {
      const detail = `Statement ${number} has another SHA-256: ${owed.sha256}. Load it again, and check what you have with the checker.`;
      throw new Refusal({ code: 'invalid_input', detail, attr: 'sha256' });
    }
    const { acknowledged: last } = chain;
    const before = last && (await findBalance(tx, exportId, last.number));
    const wasWrong = last !== null && before?.sha256 === last.sha256 && before.rows !== last.rows;
    const isWrong = rows !== owed.rows;
    await storeAcknowledgement(tx, exportId, given);
    if (isWrong === wasWrong) return;
    const facts = { number, sha256, rows, rows_of_balance: owed.rows };
    await notifyOfLoad(tx, exportId, isWrong ? 'load.differs' : 'load.agrees', facts);
    const level = isWrong ? 'WARNING' : 'INFO';
    const message = isWrong
      ? `The receiver says that it holds ${rows} rows after statement ${number}, whose balance is ${owed.rows}.`
      : `The receiver holds the ${rows} rows of statement ${number} again.`;
    await noteInLog(tx, batchExport, level, message);
  });
}
