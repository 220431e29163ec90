import { type CauseScope, causeKindOf, probeDelayMs } from '../../../foundation/domain/causes.ts';
import { errorCatalogue, SluiceError } from '../../../foundation/domain/errors.ts';
import { type KnownCause, takeProbe } from '../../../state/store/healing/causes.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import type { ClaimedRun } from '../../../state/store/runs/claims.ts';

/** The source and the destination of a run: runs of one place have the same text. */
export interface RunPlaces {
  readonly destination: string;
  readonly source: string;
}

/** An attempt that was not made, because its place is known not to work. Its text says what failed there. */
export class KnownOutage extends SluiceError {
  readonly causeId: string;

  constructor(cause: Pick<KnownCause, 'id' | 'scope' | 'code' | 'beganAt' | 'latestError'>) {
    const detail = detailOf(cause);
    // Not when the next probe is: a reader comes later, and finds it beside the cause.
    super(
      cause.code,
      `no attempt was made: it has failed since ${cause.beganAt}${detail === null ? '' : `: ${detail}`}`,
    );
    this.causeId = cause.id;
  }
}

/**
 * What the newest attempt at the place added to the meaning of its code; a remedy may refer to it. A source serves several
 * organizations, so what failed there for one of them is not shown to the others.
 */
function detailOf({
  scope,
  code,
  latestError,
}: Pick<KnownCause, 'scope' | 'code' | 'latestError'>): string | null {
  if (scope === 'source') return null;
  const { means, remedy } = errorCatalogue[code];
  const [before, after] = [`${code}: ${means} (`, `) ${remedy}`];
  return latestError.startsWith(before) && latestError.endsWith(after)
    ? latestError.slice(before.length, -after.length)
    : null;
}

/** The place of a failure at the scope that its code speaks of; the export's own if its places are not known. */
export function placeOf(
  { exportId }: Pick<ClaimedRun, 'exportId'>,
  scope: CauseScope,
  places: RunPlaces | null,
): { readonly scope: CauseScope; readonly place: string } {
  return scope === 'export' || places === null
    ? { scope: 'export', place: exportId }
    : { scope, place: places[scope] };
}

/** What is known about the places of a run, its export among them. */
export function causesAt(
  run: Pick<ClaimedRun, 'exportId' | 'causes'>,
  places: RunPlaces,
): readonly KnownCause[] {
  return run.causes.filter(({ scope, place }) => placeOf(run, scope, places).place === place);
}

/**
 * Refuses an attempt at a place that does not work, so that its requests are only those of probes. A probe of a destination would
 * end at a source that does not work, and show nothing: its cause stays as it is. What a person asked for after the last failure is
 * attempted: the cause may have been fixed just now.
 *
 * @throws KnownOutage
 */
export function refuseKnownOutage(
  run: Pick<ClaimedRun, 'exportId' | 'causes' | 'probes' | 'askedAt'>,
  places: RunPlaces,
): void {
  const known = causesAt(run, places);
  const isNews = ({ failedAt }: KnownCause) => run.askedAt !== null && failedAt < run.askedAt;
  const open = known.filter(
    (cause) => cause.isOpen && causeKindOf(cause.code)?.isCertain && !isNews(cause),
  );
  // The source comes first: while it does not work, nothing is probed but the source.
  const source = open.find(({ scope }) => scope === 'source');
  if (run.probes === null) {
    const outage = source ?? open[0];
    if (outage) throw new KnownOutage(outage);
    return;
  }
  const probed = known.find(({ id }) => id === run.probes);
  if (source && probed && probed.scope !== 'source') throw new KnownOutage(probed);
}

/**
 * Refuses an attempt at a place that is known not to work, unless the attempt is its probe: if the probe is due, and no other run will
 * make it. Exports that do not heal have no such run, and their place would never be tried again.
 *
 * @throws KnownOutage
 */
export async function beginAtPlaces(
  db: Sql,
  run: Pick<ClaimedRun, 'exportId' | 'causes' | 'probes' | 'askedAt'>,
  places: RunPlaces,
): Promise<void> {
  try {
    refuseKnownOutage(run, places);
  } catch (error) {
    const cause =
      error instanceof KnownOutage && run.probes === null
        ? run.causes.find(({ id }) => id === error.causeId)
        : undefined;
    if (!cause || !(await takeProbe(db, cause.id, probeDelayMs(cause.ageMs), true))) throw error;
  }
}
