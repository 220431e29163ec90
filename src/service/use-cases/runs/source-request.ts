import type { ExportMode } from '../../../foundation/domain/export-settings.ts';
import type { EventFilters } from '../../../foundation/domain/file-settings.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { SourceRequest } from '../../../rows/sources/source.ts';
import type { ClaimedRun } from '../../../state/store/runs/claims.ts';

/** The parts of an export that decide which rows of an interval are exported. */
export interface RowChoice extends EventFilters {
  readonly model: string;
  readonly tenantKey: string;
  readonly mode: ExportMode;
  readonly dslQuery: string | null;
}

export function sourceRequestOf(choice: RowChoice, interval: DataInterval): SourceRequest {
  const { model, tenantKey, mode, dslQuery, includeEvents, excludeEvents } = choice;
  const request = { model, tenantKey, interval, dslQuery, includeEvents, excludeEvents };
  return mode === 'append' ? request : { ...request, whole: true };
}

/** The known elements of the export of a run; null unless the run makes the next one. */
export function sequenceOf({ mode, purpose, ...run }: ClaimedRun) {
  if (mode !== 'changes' || purpose !== 'whole') return null;
  const { lastElement, begunElements: begun, newBase, made, destinationVersion } = run;
  const isHere = lastElement?.destinationVersion === destinationVersion;
  return { last: lastElement && { ...lastElement, isHere }, begun, newBase, made };
}
