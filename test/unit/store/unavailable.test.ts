import { expect, test } from 'vitest';
import { isDatabaseUnavailable } from '../../../src/state/store/database/unavailable.ts';

const withCode = (code: string) => Object.assign(new Error('no'), { code });

test.each(['53100', '53200', '53300', '58030', '40P01', '40001', '55P03', '57014', '08006'])(
  'a statement that ended with %s may be repeated: it did not cause that',
  (code) => {
    expect(isDatabaseUnavailable(withCode(code))).toBe(true);
  },
);

test.each(['23505', '23P01', '42703', '22P02', '54000'])(
  'a statement that ended with %s may not: it would end so again',
  (code) => {
    expect(isDatabaseUnavailable(withCode(code))).toBe(false);
  },
);
