import type { EventFilters } from '../../domain/file-settings.ts';
import type { DataInterval } from '../../domain/time.ts';
import type { SourceRequest } from '../../sources/source.ts';

/** The parts of an export that say which rows an interval has. */
export interface RowChoice extends EventFilters {
  readonly model: string;
  readonly teamId: number;
  readonly dslQuery: string | null;
}

/** What a run of an export asks of its source. */
export function sourceRequestOf(choice: RowChoice, interval: DataInterval): SourceRequest {
  const { model, teamId, dslQuery, includeEvents, excludeEvents } = choice;
  return { model, teamId, interval, dslQuery, includeEvents, excludeEvents };
}
