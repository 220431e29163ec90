import { parseSpanBack, parseTime } from '../../domain/parse-time.ts';
import type { TimeBound } from '../../store/lists.ts';

/** A bound of a list, from text that has passed the schema's format. */
export function timeBound(text: string | undefined): TimeBound | null {
  if (text === undefined) return null;
  const spanBack = parseSpanBack(text);
  if (spanBack !== null) return { spanBack };
  const parsed = parseTime(text);
  return parsed && { at: parsed.timestamp };
}
