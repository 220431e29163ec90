import type { Destination } from '../../rows/destinations/destination.ts';
import type { SluiceError } from '../../foundation/domain/errors.ts';
import { rightsToRemove } from '../../foundation/domain/object-keys.ts';
import { fencesManifests } from '../../foundation/domain/store-traits.ts';
import { type RemovalRules, removeLeftovers } from '../../rows/pipeline/leftovers.ts';
import type { ExportTable } from '../../rows/pipeline/table-format.ts';
import {
  endRemoval,
  forgetLeftoverFiles,
  listLeftoverFiles,
  type RemovalWork,
} from '../../state/store/files/leftover-files.ts';
import type { LogLevel } from '../../state/store/exports/log-entries.ts';
import { knowsCommit } from '../../state/store/files/known-commits.ts';
import { readNow } from '../../state/store/intervals/ticks.ts';
import type { Context } from '../use-cases/context.ts';
import { readSigner } from '../use-cases/installation/signing.ts';

interface Current extends Omit<RemovalWork, 'teamId' | 'externalId' | 'destination' | 'model'> {
  /** The export's table, which may need files of before; null or absent: it has none. */
  readonly table?: ExportTable | null;
}

/** `failed` if nothing could be removed; `some` if files are left because of an error. */
type Removed = 'all' | 'some' | 'failed';

/** Removes the files of earlier generations of a recorded run. No worker can commit them, so it may run late or again. */
export async function removeFiles(
  { db, secrets }: Pick<Context, 'db' | 'secrets'>,
  destination: Destination,
  current: Current,
  log: (level: LogLevel, message: string) => void,
  signal: AbortSignal,
): Promise<Removed> {
  const noted = await listLeftoverFiles(db, current);
  if (noted.length === 0) return 'all';
  const keys = noted.map(({ key }) => key);
  const { table, interval, manifestKey } = current;
  const now = () => readNow(db);
  const held =
    table && manifestKey !== null
      ? await table.findHeld(destination, { interval, manifestKey }, keys, now, signal)
      : new Set<string>();
  // They stay until the snapshots that need them have expired; the sweep looks again.
  const leftovers = noted.filter(({ key }) => !held.has(key));
  if (leftovers.length === 0) return 'all';
  const { exportId, runId, era, generation, fileGeneration: attemptGeneration } = current;
  const commit = { exportId, runId, era, interval, generation, attemptGeneration, manifestKey };
  const keepsRecent = destination.traits !== null && !fencesManifests(destination.traits);
  const rules: RemovalRules = {
    keepsRecent,
    knows: (...commit) => knowsCommit(db, current, ...commit),
    sign: await readSigner({ db, secrets }),
    confirm: async (keys) => {
      const listed = new Set((await listLeftoverFiles(db, current)).map(({ key }) => key));
      return keys.filter((key) => listed.has(key));
    },
  };
  const removal = await removeLeftovers(destination, commit, leftovers, rules, signal);
  const { removed, foreign, fault } = removal;
  await forgetLeftoverFiles(db, current, [...removed, ...foreign]);
  const again = new Set(leftovers.filter(({ wasDeleted }) => wasDeleted).map(({ key }) => key));
  const gone = removed.filter((key) => !again.has(key));
  if (gone.length > 0) log('INFO', `Removed what was replaced: ${showKeys(gone)}.`);
  if (foreign.length > 0) {
    const shown = showKeys(foreign);
    log('INFO', `Sluice does not remove files that this export did not write: ${shown}.`);
  }
  if (!fault) return 'all';
  const done = new Set([...removed, ...foreign]);
  const remaining = leftovers.filter(({ key }) => !done.has(key)).map(({ key }) => key);
  if (removed.length > 0 && signal.aborted) {
    log('INFO', `Sluice removes the other ${remaining.length} replaced files later.`);
    return 'some';
  }
  log('WARNING', describeRemaining(fault, remaining));
  return removed.length > 0 ? 'some' : 'failed';
}

/** Removes what a recorded run has replaced. If it is cut short, the sweep goes on at once. */
export async function removeReplaced(
  context: Pick<Context, 'db' | 'secrets'>,
  destination: Destination,
  current: Current,
  log: { add(level: LogLevel, message: string): void },
  signal: AbortSignal,
): Promise<void> {
  const tell = (level: LogLevel, message: string) => log.add(level, message);
  const end = await removeFiles(context, destination, current, tell, signal);
  if (end !== 'all') await endRemoval(context.db, current, true);
}

function describeRemaining(fault: SluiceError, remaining: readonly string[]): string {
  const remedy =
    fault.code === 'destination.access_denied'
      ? `Grant the credentials of the export ${rightsToRemove} for these keys.`
      : fault.spec.remedy;
  return `${remaining.length} replaced files could not be removed: ${showKeys(remaining)}. A reader that lists their prefix sees them beside the current ones. ${remedy} Sluice tries again by itself. The reason: ${fault.message}`;
}

const keysShown = 5;

function showKeys(keys: readonly string[]): string {
  const more = keys.length - keysShown;
  return keys.slice(0, keysShown).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
