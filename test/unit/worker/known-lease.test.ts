import { expect, it } from 'vitest';
import type { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { KnownLease } from '../../../src/service/worker/leases.ts';
import { codeOf } from '../../conformance/destination-suite.ts';

/** A lease of a second, and two clocks as the test sets them. */
function open(ask: () => Promise<boolean> = async () => true) {
  const clock = { monotonic: 500, wall: 1_000_000 };
  const asked: number[] = [];
  const lease = new KnownLease(1_000, async () => {
    asked.push(clock.monotonic);
    return ask();
  }, [() => clock.monotonic, () => clock.wall]);
  const pass = (ms: number) => {
    clock.monotonic += ms;
    clock.wall += ms;
  };
  return { clock, lease, asked, pass };
}

it('does not hold before our database was asked', () => {
  expect(open().lease.holds()).toBe(false);
});

it.each(['monotonic', 'wall'] as const)('is over once the %s clock says so alone', async (name) => {
  const { clock, lease } = open();
  await lease.extend(true);
  expect(lease.holds()).toBe(true);
  clock[name] += 1_000;
  expect(lease.holds()).toBe(false);
});

it('is over by the monotonic clock, though the other one was set back', async () => {
  const { clock, lease, pass } = open();
  await lease.extend(true);
  clock.wall -= 3_600_000;
  pass(999);
  expect(lease.holds()).toBe(true);
  pass(1);
  expect(lease.holds()).toBe(false);
});

it('lasts from the question on, however late the answer comes', async () => {
  const { lease, pass } = open(async () => {
    pass(1_000);
    return true;
  });
  await lease.extend(true);
  expect(lease.holds()).toBe(false);
});

it('is extended if less than half of it is left, or always if that is asked for', async () => {
  const { lease, asked, pass } = open();
  await lease.renewBy(async () => true);
  pass(499);
  await lease.extend(false);
  expect(asked).toEqual([]);
  await lease.extend(true);
  expect(asked).toEqual([999]);
  pass(501);
  await lease.extend(false);
  expect(asked).toEqual([999, 1_500]);
  pass(999);
  expect(lease.holds()).toBe(true);
});

it('says that it is lost, or that our database cannot be asked', async () => {
  const { lease } = open(async () => false);
  expect(await codeOf(lease.extend(false))).toBe('run.lease_lost');
  expect(lease.holds()).toBe(false);
  const unreachable = open(async () => {
    throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
  });
  const code = await unreachable.lease.extend(true).catch((error: SluiceError) => error.code);
  expect(code).toBe('internal.database_unavailable');
});
