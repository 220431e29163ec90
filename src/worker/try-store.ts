import type { Destination, UploadJournal } from '../destinations/destination.ts';
import { toSluiceError } from '../domain/errors.ts';
import { describeMissingTraits, type StoreTraits } from '../domain/store-traits.ts';
import type { Sql } from '../store/database.ts';
import { keepStoreTraits, type TriedPlace } from '../store/store-traits.ts';
import type { RunLog } from './run-log.ts';

/**
 * Before a run writes its first file: tries what a store keeps to, if that is not known, and keeps
 * it. Credentials may be good for the export's own keys alone; then the run goes on as at S3, and a
 * store that acts otherwise is noticed when it does.
 *
 * @throws SluiceError of a transient fault
 */
export async function tryStore(
  db: Sql,
  place: TriedPlace,
  destination: Destination,
  journal: UploadJournal,
  log: Pick<RunLog, 'add'>,
  signal: AbortSignal,
): Promise<void> {
  if (destination.traits !== null) return;
  const traits = await destination.probe(signal, journal).catch((caught: unknown) => {
    const error = toSluiceError(caught);
    if (signal.aborted || error.spec.retryable) throw caught;
    log.add(
      'WARNING',
      `The store could not be tried, so it is taken for one that does as S3 does. ${error.message}`,
    );
    return null;
  });
  if (traits === null) return;
  await keepStoreTraits(db, place, traits);
  warn(log, traits, 'The store was tried.');
}

/** After the attempt: a store that acted against what was known of it was tried again meanwhile. */
export async function keepNewTraits(
  db: Sql,
  place: TriedPlace,
  before: StoreTraits | null,
  { traits }: Destination,
  log: Pick<RunLog, 'add'>,
): Promise<void> {
  if (traits === null || traits === before) return;
  await keepStoreTraits(db, place, traits);
  warn(log, traits, 'The store did not act as it did before, and was tried again.');
}

function warn(log: Pick<RunLog, 'add'>, traits: StoreTraits, why: string): void {
  for (const { text } of describeMissingTraits(traits)) log.add('WARNING', `${why} ${text}`);
}
