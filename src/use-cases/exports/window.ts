import type { Timestamp } from '../../domain/time.ts';
import type { Problem } from '../outcome.ts';

/** Timestamps of one form compare as text. */
export function checkWindow(startAt: Timestamp | null, endAt: Timestamp | null): Problem[] {
  if (startAt === null || endAt === null || endAt > startAt) return [];
  return [{ code: 'invalid_input', detail: 'end_at must be after start_at.', attr: 'end_at' }];
}
