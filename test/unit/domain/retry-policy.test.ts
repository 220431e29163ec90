import { describe, expect, it } from 'vitest';
import {
  afterRemedy,
  decidedByPeople,
  nextStepOf,
  turnOf,
} from '../../../src/foundation/domain/causes.ts';
import {
  type ErrorCode,
  errorCatalogue,
  SluiceError,
} from '../../../src/foundation/domain/errors.ts';
import { decideAttempt, defaultRetryPolicy } from '../../../src/foundation/domain/retry-policy.ts';

const policy = { ...defaultRetryPolicy, maxAttempts: 3, secondOpinionMs: 10_000 };

function decide(code: ErrorCode, before: ErrorCode | null, workedBefore = true, attempt = 1) {
  return decideAttempt(new SluiceError(code), attempt, { before, workedBefore }, policy, 0.5);
}

describe('an attempt that ended with a permanent error', () => {
  it('ends the run at once at a destination that never worked', () => {
    expect(decide('destination.access_denied', null, false)).toEqual({ outcome: 'failed' });
  });

  it('is retried at a destination that worked before, and final the second time', () => {
    const doubted = { outcome: 'doubted', delayMs: 10_000 };
    expect(decide('destination.access_denied', null)).toEqual(doubted);
    expect(decide('destination.access_denied', 'destination.access_denied').outcome).toBe('failed');
  });

  it('is retried anew after a transient error in between', () => {
    expect(decide('destination.access_denied', 'destination.unavailable').outcome).toBe('doubted');
  });

  it('counts as an attempt if the destination answers another permanent error, so that the retries end', () => {
    const next = (attempt: number) =>
      decide('destination.access_denied', 'destination.bucket_not_found', true, attempt);
    expect(next(1)).toEqual({ outcome: 'retry', delayMs: 10_000 });
    expect(next(3)).toEqual({ outcome: 'failed' });
  });

  it('is final if the error is not the destination’s', () => {
    expect(decide('query.invalid', null)).toEqual({ outcome: 'failed' });
  });

  it('leaves transient faults to their backoff', () => {
    expect(decide('destination.unavailable', null)).toEqual({ outcome: 'retry', delayMs: 15_000 });
  });
});

describe('whose turn it is', () => {
  const codes = Object.keys(errorCatalogue) as ErrorCode[];

  it('is never the customer’s if only the operator of Sluice or of the source can act', () => {
    const asks = codes.filter((code) =>
      errorCatalogue[code].remedy.startsWith('Ask your operator'),
    );
    expect(asks.length).toBeGreaterThan(10);
    expect(asks.filter((code) => turnOf(code) === 'customer')).toEqual([]);
  });

  it.each<[ErrorCode, string]>([
    ['destination.proxy_refused', 'ours'],
    ['source.model_invalid', 'ours'],
    ['source.schema_changed', 'ours'],
    ['source.standby', 'ours'],
    ['source.unavailable', 'source'],
    ['source.row_too_large', 'customer'],
    ['destination.certificate_refused', 'customer'],
    ['query.invalid', 'customer'],
    ['internal.disk_full', 'ours'],
  ])('of %s is %s', (code, turn) => {
    expect(turnOf(code)).toBe(turn);
  });
});

it('no remedy says what Sluice does next: that depends on the run', () => {
  const promises = (Object.keys(errorCatalogue) as ErrorCode[]).filter((code) =>
    /no action needed|automatically|by itself|retries/i.test(errorCatalogue[code].remedy),
  );
  expect(promises).toEqual([]);
});

describe.each(Object.keys(errorCatalogue) as ErrorCode[])('the remedy of %s', (code) => {
  it('ends after the fix, and can be read alone', () => {
    expect(errorCatalogue[code].remedy).not.toMatch(/\bretr(y|ies|ied)\b|\babove\b|\bbelow\b/i);
    expect(errorCatalogue[code].remedy).toMatch(/[.)]$/);
    // What the remedy is about is named by itself.
    expect(errorCatalogue[code].remedy).not.toMatch(/^Ask your operator to \w+ (?:it|them)\b/);
  });

  it('leaves commands of the installation to the operator', () => {
    const { remedy } = errorCatalogue[code];
    if (/\bsluice (doctor|eras|keys|models|verify)\b/.test(remedy)) {
      expect(remedy).toMatch(/\boperator\b/);
    }
  });

  it('is followed by what happens next: Sluice heals, or a person decides', () => {
    const itself = 'Sluice exports what is missing by itself';
    // Its run has not ended.
    if (code === 'source.slow')
      return expect(nextStepOf(code)).toMatch(/ The run goes on meanwhile\.$/);
    expect(nextStepOf(code).includes(itself)).toBe(!decidedByPeople.has(code));
    expect(afterRemedy(code, false)).not.toContain(itself);
    const isChoice = code === 'source.rows_missing' || code === 'run.late_rows_wait';
    expect(/retry the run/.test(afterRemedy(code, false))).toBe(!isChoice);
  });
});
