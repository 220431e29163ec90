import { describe, expect, test } from 'vitest';
import { readErrorBody, readRunError, sortProblems } from '../../../src/clients/console/api.ts';

describe('an error answer', () => {
  test('shows all its problems and its request', () => {
    const problem = { type: 'validation_error', code: 'required', detail: 'Needed.', attr: 'name' };
    const answer = readErrorBody(400, { ...problem, errors: [problem], request_id: 'r1' }, true);
    expect(answer).toEqual({
      problems: [{ code: 'required', detail: 'Needed.', attr: 'name' }],
      requestId: 'r1',
    });
  });

  test.each([[null], ['<html>'], [{ errors: [] }], [{ errors: [{ detail: 5 }] }]])(
    'that is not of our shape (%j) is described by its status',
    (body) => {
      expect(readErrorBody(418, body, false).problems[0]?.detail).toMatch(/418\.$/);
      expect(readErrorBody(503, body, true).problems[0]?.detail).toMatch(/unavailable\.$/);
    },
  );

  test.each([502, 503, 504, 500])(
    'of a proxy says of a change that it may have been made: %i',
    (status) => {
      expect(readErrorBody(status, null, false).problems[0]?.detail).toMatch(/may have been done/);
    },
  );
});

test('a change that is still being made says so without the name of a header', () => {
  const problem = { code: 'conflict', detail: 'A request with it runs.', attr: 'Idempotency-Key' };
  expect(readErrorBody(409, { ...problem, errors: [problem] }, false).problems).toEqual([
    { code: 'conflict', detail: expect.stringContaining('is still running'), attr: null },
  ]);
});

test('problems go to the fields that they name, items of a list to the list, the rest above', () => {
  const problem = (attr: string | null, detail: string) => ({ code: 'x', detail, attr });
  const { byField, others } = sortProblems(
    [
      problem('name', 'One.'),
      problem('name', 'Two.'),
      problem('include__0', 'Item.'),
      problem('include_more', 'Other field.'),
      problem(null, 'General.'),
    ],
    ['name', 'include'],
  );
  expect(Object.fromEntries(byField)).toEqual({ name: 'One. Two.', include: 'Item.' });
  expect(others.map(({ detail }) => detail)).toEqual(['Other field.', 'General.']);
});

describe('a run’s error', () => {
  test('is its code and what to do', () => {
    expect(readRunError('destination.bucket_not_found: It is gone: create it.')).toEqual({
      code: 'destination.bucket_not_found',
      text: 'It is gone: create it.',
    });
  });

  test('without a code is all text', () => {
    expect(readRunError('Note: it broke')).toEqual({ code: null, text: 'Note: it broke' });
  });
});
