import { expect, it } from 'vitest';
import { Throttled } from '../../../src/foundation/domain/problem.ts';
import { PreviewSlots } from '../../../src/service/api/insights/preview-slots.ts';

/** Slots with 10 s of time. A tenth comes back; only previews move the clock. */
function slotsWithTime() {
  let now = 5;
  const slots = new PreviewSlots({ savedMs: 10_000, savedPerSecondMs: 100 }, () => now);
  const never = new AbortController().signal;
  const pass = async (ms: number) => {
    now += ms;
  };
  const preview = (organization: string, ms: number) =>
    slots
      .use(organization, never, () => pass(ms))
      .then(
        () => 'done',
        (error: unknown) => (error instanceof Throttled ? error.retryAfterMs / 1_000 : error),
      );
  return { preview, pass, slots, never };
}

it('is used up by long ones, and comes back', async () => {
  const { preview, pass } = slotsWithTime();
  expect(await preview('a', 9_000)).toBe('done');
  expect(await preview('a', 9_000)).toBe('done');
  // Of 10 s 18 s were used, and 0.9 s came back.
  expect(await preview('a', 1)).toBe(72);
  await pass(70_000);
  expect(await preview('a', 1)).not.toBe('done');
  await pass(2_000);
  expect(await preview('a', 1)).toBe('done');
});

it('is that of each organization', async () => {
  const { preview } = slotsWithTime();
  await preview('a', 90_000);
  expect(await preview('a', 1)).not.toBe('done');
  expect(await preview('b', 1)).toBe('done');
});

it('is not saved beyond its bound', async () => {
  const { preview, pass } = slotsWithTime();
  await preview('a', 1);
  await pass(3_600_000);
  expect(await preview('a', 12_000)).toBe('done');
  expect(await preview('a', 1)).not.toBe('done');
});

it('is looked at again after a wait', async () => {
  const { slots, never, pass } = slotsWithTime();
  const both = [1, 2].map(() => slots.use('a', never, () => pass(8_000)));
  const third = slots.use('a', never, async () => 'done');
  await Promise.all(both);
  await expect(third).rejects.toThrow(Throttled);
});
