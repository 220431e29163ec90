import { afterEach, expect, test } from 'vitest';
import { readFailpoints } from '../../src/config/failpoints.ts';
import { armFailpoints, hit } from '../../src/domain/failpoints.ts';
import { installFailpoints } from '../../src/main/failpoints.ts';

afterEach(() => armFailpoints(async () => {}));

test('FAILPOINTS is heeded under NODE_ENV=test only', () => {
  const FAILPOINTS = 'claim=kill';
  expect(readFailpoints({ FAILPOINTS, NODE_ENV: 'production' })).toBe('');
  expect(readFailpoints({ FAILPOINTS })).toBe('');
  expect(readFailpoints({ NODE_ENV: 'test' })).toBe('');
  expect(readFailpoints({ FAILPOINTS, NODE_ENV: 'test' })).toBe(FAILPOINTS);
});

test('an error strikes at its place, at the hit that was asked for', async () => {
  installFailpoints('claim=error(source.unavailable)@2;before_open=delay(1)');
  await hit('claim');
  await expect(hit('claim')).rejects.toThrow('source.unavailable');
  await hit('claim');
  await hit('before_open');
  await hit('mid_part');
});

test('a hold lasts until SIGWINCH', async () => {
  installFailpoints('claim=hold');
  let held = true;
  const holding = hit('claim')?.then(() => {
    held = false;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(held).toBe(true);
  process.kill(process.pid, 'SIGWINCH');
  await holding;
  expect(held).toBe(false);
});

test.each(['nowhere=kill', 'claim=explode', 'claim=error(no.such_code)', 'claim'])(
  '%s is refused',
  (spec) => {
    expect(() => installFailpoints(spec)).toThrow(`FAILPOINTS: ${spec} is not understood`);
  },
);
