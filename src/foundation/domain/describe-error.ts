import type { SluiceError } from './errors.ts';
import { cutText } from './one-line.ts';

/** A store may say much; an answer holds thousands of these texts. */
const maxDetail = 1_000;

/** The text of `latest_error`. What Sluice does next depends on the run: the caller adds it. */
export function describeError(error: SluiceError): string {
  const { means, remedy } = error.spec;
  const detail = error.detail ? ` (${cutText(error.detail, maxDetail)})` : '';
  return `${error.code}: ${means}${detail} ${remedy}`;
}
