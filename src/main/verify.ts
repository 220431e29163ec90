import { ownSteps } from '../extensions/own-plugins/own-plugins.ts';
import type { Config } from '../foundation/config/config.ts';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import { systemClock } from '../foundation/domain/clock.ts';
import { usualFileName } from '../foundation/domain/file-name.ts';
import { topFolders } from '../foundation/domain/key-template.ts';
import { readFileSettings } from '../foundation/domain/file-settings.ts';
import { unlessAborted } from '../foundation/domain/patience.ts';
import { countInSource, renderInterval } from '../rows/pipeline/render-interval.ts';
import type { Database } from '../state/store/database/database.ts';
import { listFormerNames } from '../state/store/files/former-destinations.ts';
import {
  listLeftDestinations,
  listVerifiedExports,
  readDestinationVersion,
  type VerifiedExport,
} from '../state/store/intervals/verify-queries.ts';
import { freeBuffers } from '../service/admission/process-memory.ts';
import { openChain } from '../service/use-cases/transformations/open-chain.ts';
import type { StrayPlace } from '../service/verify/find-strays.ts';
import { folderOf, type Places } from '../service/verify/places.ts';
import { lookUpFor } from '../service/verify/source-keys.ts';
import type { RenderAgain } from '../service/verify/verified-interval.ts';
import {
  type OpenedExport,
  type VerifyAll,
  verifyExports,
  type VerifyReport,
} from '../service/verify/verify-exports.ts';
import type { Connectors } from '../service/worker/connectors.ts';
import {
  destinationContextOf,
  destinationOf,
  joinConnectors,
  readRowsBy,
  registry,
} from './connectors.ts';
import { openSecretBox } from './encryption-keys.ts';
import { joinSources, loadModels } from './models.ts';
import { lookBackHoursOf } from './policy.ts';
import type { ErasedValue } from '../foundation/domain/erased-value.ts';
import { SluiceError } from '../foundation/domain/errors.ts';
import { describeError } from '../foundation/domain/describe-error.ts';
import type { DataInterval } from '../foundation/domain/time.ts';
import type { SecretBox } from '../foundation/security/secret-box.ts';
import { listReceipts } from '../state/store/intervals/receipts.ts';
import { sourceRequestOf } from '../service/use-cases/runs/source-request.ts';
import {
  findValue,
  type SearchedExport,
  type SearchedInterval,
} from '../service/verify/find-value.ts';
import { findTenantKey } from '../state/store/tenants/tenants.ts';

/** The time in which the rows of one export may be looked up in its source. */
const lookUpMs = 60_000;

type Choice = Omit<VerifyAll, 'sql' | 'open' | 'placeOf'>;

/** Verifies all exports, or some, with the connectors of this installation. */
export const verifyInstallation = (
  config: Config,
  db: Database,
  sourceUrl: string,
  choice: Choice = {},
): Promise<VerifyReport> =>
  withConnectors(config, db, sourceUrl, (joined) => verifyExports({ ...choice, ...joined }));

export interface JoinedForVerify extends Pick<VerifyAll, 'open' | 'placeOf'> {
  readonly sql: Database;
  readonly connectors: Connectors;
  readonly models: readonly SourcedModel[];
  readonly secrets: SecretBox;
}

export async function withConnectors<Result>(
  config: Config,
  db: Database,
  sourceUrl: string,
  verify: (joined: JoinedForVerify) => Promise<Result>,
): Promise<Result> {
  const context = destinationContextOf(config);
  const holdRow = oneAtATime();
  const models = loadModels(config);
  const sourceOf = joinSources(config, models, sourceUrl, { holdRow });
  const secrets = await openSecretBox(config);
  const connectors = joinConnectors(sourceOf, context, secrets);
  const renderFor =
    (batchExport: VerifiedExport): RenderAgain =>
    async ({ exportId: id, interval }, recipe, request, folder, signal, deletesOf) => {
      const chain = await openChain(
        { db, secrets, ownSteps },
        batchExport.teamId,
        recipe.chain ?? [],
      );
      const { maxFileBytes = null, partitionBy = [] } = recipe;
      const encoding = connectors.encodingOf(recipe);
      const steps = chain?.steps ?? [];
      const files = { encoding, maxFileBytes, partitionBy };
      const job = {
        ...{ exportId: id, interval, request, steps, ...files },
        ...(deletesOf && { deletesOf }),
      };
      const here = destinationOf(registry, 'File').open(
        { directory: '' },
        { ...context, fileDestinationRoot: folder },
        { externalId: '' },
      );
      return renderInterval(job, sourceOf(batchExport.model), here, signal);
    };
  const settings = {
    lookBackHours: lookBackHoursOf(config, models),
    retentionDays: config.RETENTION_DAYS,
  };
  try {
    return await verify({
      ...{ sql: db, connectors, models, secrets },
      placeOf: (type, place) => destinationOf(registry, type).place(place),
      open: async (batchExport, places, signal) => ({
        ...(await openPlaces(db, connectors, batchExport, places)),
        source: sourceOf(batchExport.model),
        lookUp: lookUpFor(sourceOf(batchExport.model), signal, lookUpMs, systemClock.now),
        readRows: readRowsBy(registry),
        ...settings,
        renderAgain: renderFor(batchExport),
      }),
    });
  } finally {
    // Idle sockets would keep the process alive.
    context.httpAgent.destroy();
    context.httpsAgent.destroy();
  }
}

/** Large rows of all exports that are verified at once: each is held several times, so there is one, and then its memory is free again. */
function oneAtATime(): (bytes: number, signal: AbortSignal) => Promise<() => void> {
  let last: Promise<void> = Promise.resolve();
  return async (_, signal) => {
    const before = last;
    let leave = () => {};
    const turn = new Promise<void>((resolve) => {
      leave = resolve;
    });
    last = before.then(() => turn);
    try {
      await unlessAborted(before, signal);
    } catch (error) {
      leave();
      throw error;
    }
    return () => {
      freeBuffers();
      leave();
    };
  };
}

type OpenedPlaces = Pick<
  OpenedExport,
  'destination' | 'keepsFiles' | 'table' | 'strayPlaces' | 'formerPlaces' | 'leftOut' | 'close'
>;

/** Opens the destination of an export, and those that it has left and whose secrets are still kept. */
async function openPlaces(
  db: Database,
  connectors: Connectors,
  batchExport: VerifiedExport,
  places: Places,
): Promise<OpenedPlaces> {
  const { id, model, externalId, destinationVersion } = batchExport;
  const { type, config } = batchExport.destination;
  const named = [readFileSettings(config), ...(await listFormerNames(db, id, usualFileName))];
  const fileNames = [...new Set([...named.map(({ fileName }) => fileName), usualFileName])];
  const destination = connectors.openDestination({ ...batchExport, exportId: id });
  const { keepsFiles } = destinationOf(registry, type);
  const present = places.ownersAt(id, type, config);
  // The export is not back at these places.
  const formerDestinations = (await listLeftDestinations(db, id))
    .map((one) => ({ ...one, owners: places.ownersAt(id, type, one.destination.config) }))
    .filter(({ owners }) => !owners.own.some(({ version }) => version === destinationVersion));
  // Until a sweep has compared them, they may be the present place by other addresses.
  const sameOwners = [
    present,
    ...formerDestinations.filter(({ isOther }) => !isOther).map((one) => one.owners),
  ];
  const maybeHere = {
    own: sameOwners.flatMap(({ own }) => own),
    all: sameOwners.flatMap(({ all }) => all),
  };
  const hasMoved = async () => (await readDestinationVersion(db, id)) !== destinationVersion;
  const strayPlaces: StrayPlace[] = [
    {
      destination,
      hasMoved,
      folders: topFolders(named.map(({ prefix }) => folderOf(prefix, id, model))),
      fileNames,
      ...maybeHere,
    },
  ];
  const formerPlaces = new Map<number, { readonly destination: typeof destination }>();
  const leftOut: string[] = [];
  for (const { version, isLocked, isOther, owners, destination: stored } of formerDestinations) {
    if (isLocked) {
      leftOut.push('a former destination was not looked at: its secrets are no longer kept');
      continue;
    }
    const former = connectors.openDestination({ exportId: id, externalId, destination: stored });
    formerPlaces.set(version, { destination: former });
    const { prefix } = readFileSettings(stored.config);
    const folders = [folderOf(prefix, id, model)];
    strayPlaces.push({
      destination: former,
      hasMoved,
      folders,
      fileNames,
      ...(isOther ? owners : maybeHere),
    });
  }
  return {
    destination,
    keepsFiles,
    table: connectors.tableOf({ ...batchExport, exportId: id }),
    strayPlaces,
    formerPlaces,
    leftOut: [...new Set(leftOut)],
    async close() {
      await Promise.all(strayPlaces.map((place) => place.destination.close()));
    },
  };
}

export type { SearchedInterval };

export interface OpenSearch extends Pick<SearchedExport, 'destination'> {
  readonly keyColumns: readonly string[];
  /** True if the export has left places at which it had files. */
  readonly hasMoved: boolean;
  readonly secrets: SecretBox;
  /** Reads the current files; see `findValue`. */
  find(
    wanted: ErasedValue,
    after: DataInterval | null,
    only: ((interval: DataInterval) => boolean) | null,
  ): AsyncIterable<SearchedInterval>;
  /** The number of rows with the value that the source has for an interval now; a text says why that is not known. */
  countInSource(
    interval: DataInterval,
    wanted: ErasedValue,
    signal: AbortSignal,
  ): Promise<number | string>;
}

/** Opens the files of an export for `sluice erase`. @returns null if there is no such export, or it keeps no files */
export async function searchExport<T>(
  config: Config,
  db: Database,
  sourceUrl: string,
  exportId: string,
  work: (search: OpenSearch) => Promise<T>,
): Promise<T | null> {
  const [batchExport] = await listVerifiedExports(db, exportId);
  if (!batchExport || !destinationOf(registry, batchExport.destination.type).keepsFiles)
    return null;
  return withConnectors(config, db, sourceUrl, async (joined) => {
    const { connectors, models, secrets } = joined;
    const destination = connectors.openDestination({ ...batchExport, exportId });
    const search = { sql: db, batchExport, destination, readRows: readRowsBy(registry) };
    try {
      return await work({
        destination,
        keyColumns:
          models.find(({ model }) => model.name === batchExport.model)?.model.keyColumns ?? [],
        secrets,
        hasMoved: batchExport.destinationVersion > 0,
        find: (...asked) => findValue(search, ...asked),
        countInSource: (...asked) => countNow(joined, batchExport, ...asked),
      });
    } finally {
      await destination.close();
    }
  });
}

async function countNow(
  { sql: db, secrets, connectors }: JoinedForVerify,
  batchExport: VerifiedExport,
  interval: DataInterval,
  wanted: ErasedValue,
  signal: AbortSignal,
): Promise<number | string> {
  const { id, teamId, mode, model, dslQuery, destination } = batchExport;
  const { start, end } = interval;
  const [receipt] = await listReceipts(db, id, { start, end: end - 1 }, 1);
  // The settings that made its files; the export may have changed since.
  const files = { ...readFileSettings(destination.config), ...receipt?.recipe };
  const recipe = receipt?.recipe ?? { dslQuery };
  try {
    const chain = await openChain({ db, secrets, ownSteps }, teamId, receipt?.recipe?.chain ?? []);
    const request = sourceRequestOf(
      {
        model,
        mode,
        tenantKey: await findTenantKey(db, teamId),
        ...files,
        dslQuery: recipe.dslQuery,
      },
      interval,
    );
    const encoding = connectors.encodingOf(files);
    const rendering = { interval, request, encoding, steps: chain?.steps ?? [] };
    return await countInSource(rendering, wanted, connectors.sourceOf(model), signal);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return describeError(error);
  }
}
