import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import { listRunningBackfills } from '../../state/store/exports/backfills.ts';
import { checkCompleteness, checkLateness } from '../../state/store/exports/export-states.ts';
import { appendLogEntries, type LogLevel } from '../../state/store/exports/log-entries.ts';
import {
  endRemoval,
  findTeamsWithRemovals,
  type RemovalWork,
  takeRemoval,
} from '../../state/store/files/leftover-files.ts';
import { findStoreTraits } from '../../state/store/files/store-traits.ts';
import { makeExpiringRuns } from '../../state/store/intervals/kept-snapshots.ts';
import {
  findDueStatement,
  findTeamsWithStatements,
  putOffStatement,
} from '../../state/store/intervals/statements.ts';
import { listDueVerifications } from '../../state/store/intervals/verifications.ts';
import { sweepExpiredLeases } from '../../state/store/runs/leases.ts';
import { removeEndedEntries } from '../../state/store/runs/outbox.ts';
import { sweepWorkers } from '../../state/store/runs/workers.ts';
import { checkDeadlines } from '../use-cases/deadlines/check-deadlines.ts';
import { heal } from '../use-cases/healing/heal.ts';
import { lookBack, SlowExports } from '../use-cases/runs/look-back.ts';
import { doEach } from '../use-cases/separate-work.ts';
import { makeStatement } from '../use-cases/statements/make-statement.ts';
import { advanceOffboardings } from '../use-cases/tenants/offboard.ts';
import { collectByTeam, collectUploads, type SweepOptions } from './collect-uploads.ts';
import type { HandlerOptions, NextRuns } from './options.ts';
import { putStatements, type StatementOptions } from './put-statements.ts';
import { reconcile } from './reconcile.ts';
import { removeFiles } from './remove-files.ts';
import { sampleJobs } from './run-sample-jobs.ts';
import { skipWhileBusy } from './shared-work.ts';
import { randomUUID } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import type { Destination } from '../../rows/destinations/destination.ts';
import { SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import { readFileSettings } from '../../foundation/domain/file-settings.ts';
import { literalFolder } from '../../foundation/domain/key-template.ts';
import { markerPrefix } from '../../foundation/domain/object-keys.ts';
import {
  findTeamsWithUncomparedPlaces,
  recordComparison,
  takeUncomparedPlace,
  type UncomparedPlace,
} from '../../state/store/files/former-destinations.ts';

const expiringPerSweep = 100;

/** Sweeps between two looks that read all exports: one minute. */
const sweepsPerLook = 12;

/** The duties that come with time. One that takes long uses one slot of this worker, however often the sweep comes. */
export function createSweep(options: HandlerOptions, next: NextRuns): () => Promise<void> {
  const { executor, producer, reports, courier, verifySchedule } = options;
  const { context } = executor;
  const { db } = context;
  const { collect, sample, offboard, look, state } = longDuties(options, next);
  let sweeps = 0;
  return async () => {
    // These read all exports: one look per minute.
    const looksAtAll = sweeps % sweepsPerLook === 0;
    sweeps += 1;
    // If a duty fails for one tenant, the other duties still run.
    await doEach([
      () => looksAtAll && checkLateness(db),
      () => looksAtAll && checkCompleteness(db),
      async () => {
        if (verifySchedule === null) return;
        await producer.addVerifications(await listDueVerifications(db, verifySchedule));
      },
      () => courier.collect(),
      () => sweepExpiredLeases(db),
      async () => {
        const ended = await removeEndedEntries(db);
        if (ended > 0) reports.runFailed(new Error(`the outbox held ${ended} runs that had ended`));
      },
      () => sweepWorkers(db),
      () => checkDeadlines(context),
      async () => reports.runsMade('healing', await heal(context)),
      () => makeExpiringRuns(db, expiringPerSweep),
      async () => {
        const backfillIds = await listRunningBackfills(db);
        await doEach(backfillIds.map((id) => () => next.advance(id)));
      },
      () => next.dispatch(),
      () => collect(),
      // Long jobs must not hold up the rest of the sweep.
      () => void sample().catch(reports.sampleFailed),
      () => offboard(),
      // Stores that hinder it must not hold up the rest of the sweep.
      () => void state().catch(executor.onSweepError),
      // The last, as it may take long.
      () => look(),
    ]);
  };
}

function longDuties(options: HandlerOptions, { dispatch }: NextRuns) {
  const { executor, admission, reports, previewRows, defaultModel } = options;
  const { context, guard, connectors, stopping } = executor;
  const slow = new SlowExports();
  return {
    collect: skipWhileBusy(async () => {
      await collectUploads(executor);
      await comparePlaces(executor);
      await collectFiles(executor);
    }),
    sample: sampleJobs({
      ...{ context, guard, memory: admission.memory, previewRows, defaultModel },
      onSampleError: reports.sampleFailed,
    }),
    state: skipWhileBusy(() => stateExports({ ...executor, ...options.statements })),
    offboard: skipWhileBusy(() => {
      const endsAt = performance.now() + sliceMs;
      return advanceOffboardings(context.db, {
        describePlace: (type, config) => connectors.placeOf(type, config),
        onCompleted: reports.offboarded,
        onError: reports.offboardingFailed,
        isOver: () => stopping.aborted || performance.now() > endsAt,
      }).catch(reports.offboardingFailed);
    }),
    look: skipWhileBusy(() =>
      lookBack(context, {
        ...{ guard, slow, stopping },
        sourceOf: connectors.sourceOf,
        keepsFiles: connectors.keepsFiles,
        onError: executor.onLookBackError,
        // If it fails, the next tick dispatches the run.
        onMade: () => void dispatch().catch(() => {}),
      }),
    ),
  };
}

/** Time that one sweep has for offboardings. The next sweep continues. */
const sliceMs = 20_000;

/** Removes files that the workers of their runs could not remove. */
async function collectFiles(options: SweepOptions): Promise<void> {
  const { db } = options.context;
  await collectByTeam(options, {
    kind: 'remove_files',
    findTeams: (limit) => findTeamsWithRemovals(db, limit),
    take: (teamId) => takeRemoval(db, teamId),
    serve: (work, signal) => remove(options, work, signal),
    notTried: (work) => endRemoval(db, work, true),
  });
}

async function remove(
  { connectors, context, onSweepError }: SweepOptions,
  work: RemovalWork,
  signal: AbortSignal,
): Promise<void> {
  const { db } = context;
  const { teamId, exportId, runId } = work;
  const traits = await findStoreTraits(db, work);
  const current = { ...work, table: connectors.tableOf(work) };
  const destination = connectors.openDestination(work, traits);
  try {
    const log = (level: LogLevel, message: string) =>
      appendLogEntries(db, [{ teamId, exportId, runId, level, message }]).catch(onSweepError);
    const end = await removeFiles(context, destination, current, log, signal);
    if (end !== 'failed') await endRemoval(db, work, end === 'some');
  } finally {
    await destination.close();
  }
}

const listPatienceMs = 20_000;

/** Makes the statements that are due, and puts those that wait: of each team for itself, so no store delays others. */
export async function stateExports(options: StatementOptions): Promise<void> {
  const { context, onSweepError } = options;
  const { db } = context;
  const done = new Map<number, string[]>();
  const listedMs = new Map<number, number>();
  await collectByTeam(options, {
    kind: 'statement',
    findTeams: (limit) => findTeamsWithStatements(db, limit),
    async take(teamId) {
      const served = done.get(teamId) ?? [];
      const due = await findDueStatement(db, teamId, served);
      if (due) done.set(teamId, [...served, due.exportId]);
      return due && { ...due, teamId };
    },
    async serve({ exportId, isToMake, teamId }, signal) {
      if (isToMake) {
        const begin = performance.now();
        const spent = listedMs.get(teamId) ?? 0;
        const reconciliation = await reconcile(options, exportId, listPatienceMs - spent, signal);
        listedMs.set(teamId, spent + performance.now() - begin);
        await failpoint('before_statement');
        await makeStatement(context, options.statements, exportId, reconciliation).catch(
          async (error: unknown) => {
            await putOffStatement(db, exportId);
            onSweepError(error);
          },
        );
      }
      await putStatements(options, exportId, signal);
    },
  });
}

/**
 * Finds out whether a place that an export has left is its present one by another address: another host name, another
 * scheme, the endpoint of a VPC. Then the export's earlier files are at its present place, and an interval that runs again
 * must replace them. A marker object that is put at the one and found at the other proves it; texts prove nothing.
 */
export async function comparePlaces(options: SweepOptions): Promise<void> {
  const { db } = options.context;
  await collectByTeam(options, {
    kind: 'compare_places',
    findTeams: (limit) => findTeamsWithUncomparedPlaces(db, limit),
    take: (teamId) => takeUncomparedPlace(db, teamId),
    serve: (place, signal) => compareAndRecord(options, place, signal),
    notTried: async () => {},
  });
}

async function compareAndRecord(
  options: SweepOptions,
  place: UncomparedPlace,
  signal: AbortSignal,
): Promise<void> {
  const { db } = options.context;
  const isSame = await compare(options, place, signal).catch((error: unknown) => {
    options.onSweepError(error);
    return error;
  });
  if (typeof isSame === 'boolean') {
    await db.transaction((tx) => recordComparison(tx, place, isSame));
  } else if (place.isLastTry) {
    await giveUp(options, place, isSame);
  }
}

/** @throws if it cannot be found out now */
async function compare(
  { connectors }: SweepOptions,
  { exportId, externalId, destination, formerConfig, formerSecrets }: UncomparedPlace,
  signal: AbortSignal,
): Promise<boolean> {
  const { type, config, secrets } = destination;
  if (!connectors.keepsFiles(type)) return false;
  const open = (stored: typeof destination) =>
    connectors.openDestination({ exportId, externalId, destination: stored });
  const folder = literalFolder(readFileSettings(config).prefix);
  const key = `${folder === '' ? '' : `${folder}/`}${markerPrefix}place-${exportId}`;
  const here = open(destination);
  try {
    const marker = Buffer.from(`Sluice compares two places: ${randomUUID()}\n`);
    // A sweep that died may have left one.
    const former = await here.statFile(key, signal);
    await here.commitManifest(key, marker, former?.etag ?? null, { signal });
    try {
      // The former credentials may have been revoked, or be limited to the former prefix.
      const all = [...(formerSecrets ? [formerSecrets] : []), secrets];
      const places = all.map((own) => open({ type, config: formerConfig, secrets: own }));
      return await isThere(places, key, marker, signal);
    } finally {
      await here.deleteFiles([key], signal);
    }
  } finally {
    await here.close();
  }
}

/** Looks with each of several credentials. @throws the error of the last one */
async function isThere(
  places: readonly Destination[],
  key: string,
  marker: Buffer,
  signal: AbortSignal,
): Promise<boolean> {
  let fault = new SluiceError('destination.unavailable', 'no credentials are known');
  try {
    for (const place of places) {
      try {
        const object = await place.readFile(key, { maxBytes: 1_024, signal });
        return object !== null && (await buffer(object.body)).equals(marker);
      } catch (error) {
        fault = toSluiceError(error);
      }
    }
  } finally {
    await Promise.allSettled(places.map((place) => place.close()));
  }
  // The present credentials are right at the present place, and its bucket exists.
  if (provesOther.has(fault.code)) return false;
  throw fault;
}

const provesOther: ReadonlySet<string> = new Set([
  'destination.bucket_not_found',
  'destination.invalid_credentials',
]);

/** From now on they count as two. */
async function giveUp(
  { context: { db } }: SweepOptions,
  place: UncomparedPlace,
  caught: unknown,
): Promise<void> {
  const { teamId, exportId } = place;
  const message =
    'Sluice could not find out whether the former destination of this export is the present one by another address ' +
    `(${toSluiceError(caught).message}). If it is, remove the manifests below the former prefix yourself.`;
  await db.transaction(async (tx) => {
    if (!(await recordComparison(tx, place, false))) return;
    await appendLogEntries(tx, [{ teamId, exportId, runId: null, level: 'WARNING', message }]);
  });
}
