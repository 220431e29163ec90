import type { Destination, UploadJournal } from '../../rows/destinations/destination.ts';
import { toSluiceError } from '../../foundation/domain/errors.ts';
import { describeMissingTraits, type StoreTraits } from '../../foundation/domain/store-traits.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { keepStoreTraits, type TriedPlace } from '../../state/store/files/store-traits.ts';
import type { RunLog } from './run-log.ts';

interface ProbingAttempt {
  readonly journal: UploadJournal;
  readonly log: Pick<RunLog, 'add'>;
  readonly signal: AbortSignal;
}

/**
 * Before a run writes its first file: probes an unknown store and saves the result. If the credentials do not allow that,
 * the run assumes S3's behaviour. @throws SluiceError of a transient error
 */
export async function tryStore(
  db: Sql,
  place: TriedPlace,
  destination: Destination,
  attempt: ProbingAttempt,
): Promise<void> {
  const { journal, log, signal } = attempt;
  if (destination.traits !== null) return;
  const traits = await destination.probe(signal, journal).catch((caught: unknown) => {
    const error = toSluiceError(caught);
    if (signal.aborted || error.spec.retryable) throw caught;
    const why = 'The store could not be probed. Sluice assumes that it behaves like S3.';
    log.add('WARNING', `${why} ${error.message}`);
    return null;
  });
  if (traits === null) return;
  await keepStoreTraits(db, place, traits);
  warn(log, traits, 'The store was probed.');
}

/** After the attempt: saves what it found out about the store. If it only doubts that, the next run probes. */
export async function keepNewTraits(
  db: Sql,
  place: TriedPlace,
  before: StoreTraits | null,
  { traits }: Destination,
  log: Pick<RunLog, 'add'>,
): Promise<void> {
  if (traits === before) return;
  if (traits === null) {
    log.add('WARNING', 'The store behaved differently than before. The next run probes it.');
    return keepStoreTraits(db, place, null);
  }
  await keepStoreTraits(db, place, traits);
  if (before && before.parts !== traits.parts) {
    log.add('INFO', 'The store refuses these parts of an upload. The next attempt sends others.');
    return;
  }
  warn(log, traits, 'The store behaved differently than before and was probed again.');
}

function warn(log: Pick<RunLog, 'add'>, traits: StoreTraits, why: string): void {
  for (const { text } of describeMissingTraits(traits)) log.add('WARNING', `${why} ${text}`);
}
