import type { DataInterval } from '../../domain/time.ts';
import type { SourceRequest } from '../../sources/source.ts';

/** The parts of an export that say which rows an interval has. */
export interface RowChoice {
  readonly model: string;
  readonly teamId: number;
  readonly dslQuery: string | null;
  /** Of the destination: it carries the event filters. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** What a run of an export asks of its source. */
export function sourceRequestOf(choice: RowChoice, interval: DataInterval): SourceRequest {
  return {
    model: choice.model,
    teamId: choice.teamId,
    interval,
    dslQuery: choice.dslQuery,
    includeEvents: listOf(choice.config.include_events),
    excludeEvents: listOf(choice.config.exclude_events),
  };
}

function listOf(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.length > 0 ? value.map(String) : null;
}
