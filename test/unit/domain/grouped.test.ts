import { describe, expect, it, vi } from 'vitest';
import { Grouped, KeyedGroups } from '../../../src/foundation/domain/grouped.ts';

const isOfAll = (error: unknown) => (error as { code?: unknown }).code === 'ECONNREFUSED';

/** Answers each group when it is allowed to; `sent` are the groups so far. */
function openGrouped(answer: (items: readonly number[]) => string[]) {
  const sent: number[][] = [];
  const open: (() => void)[] = [];
  const grouped = new Grouped<number, string>(async (items) => {
    sent.push([...items]);
    await new Promise<void>((resolve) => open.push(resolve));
    return answer(items);
  }, isOfAll);
  /** Ends the oldest group, and those that begin meanwhile. */
  const endAll = async () => {
    await nextTurn();
    for (let next = open.shift(); next; next = open.shift()) {
      next();
      await nextTurn();
    }
  };
  return { grouped, sent, open, endAll };
}

/** Of the event loop; what was asked for before it is sent then. */
const nextTurn = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

const name = (items: readonly number[]) => items.map((item) => `answer ${item}`);

describe('grouped calls', () => {
  it('go together if they come in the same turn', async () => {
    const { grouped, sent, endAll } = openGrouped(name);
    const answers = Promise.all([1, 2, 3].map((item) => grouped.take(item)));
    await endAll();
    expect(await answers).toEqual(['answer 1', 'answer 2', 'answer 3']);
    expect(sent).toEqual([[1, 2, 3]]);
  });

  it('go together if they come while a group is on its way, each with its own answer', async () => {
    const { grouped, sent, endAll } = openGrouped(name);
    const first = grouped.take(1);
    await nextTurn();
    expect(sent).toEqual([[1]]);
    const others = Promise.all([grouped.take(2), nextTurn().then(() => grouped.take(3))]);
    await nextTurn();
    await nextTurn();
    expect(sent).toEqual([[1]]);
    await endAll();
    expect([await first, ...(await others)]).toEqual(['answer 1', 'answer 2', 'answer 3']);
    expect(sent).toEqual([[1], [2, 3]]);
  });

  it('are sent alone after an error, which then fails only the call that causes it', async () => {
    const { grouped, sent, endAll } = openGrouped((items) => {
      if (items.includes(3)) throw new Error('not 3');
      return name(items);
    });
    const answers = Promise.allSettled([1, 2, 3, 4].map((item) => grouped.take(item)));
    await endAll();
    expect((await answers).map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
    expect(sent).toEqual([[1, 2, 3, 4], [1], [2], [3], [4]]);
  });

  it('are not repeated if the database is unavailable: their callers decide', async () => {
    const { grouped, sent, endAll } = openGrouped(() => {
      throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    });
    const answers = Promise.allSettled([1, 2, 3].map((item) => grouped.take(item)));
    await endAll();
    expect((await answers).map(({ status }) => status)).toEqual(Array(3).fill('rejected'));
    expect(sent).toEqual([[1, 2, 3]]);
  });

  it('do not wait for a group that does not end', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const { grouped, sent, open, endAll } = openGrouped(name);
      const stuck = grouped.take(1);
      await nextTurn();
      const next = grouped.take(2);
      await nextTurn();
      expect(sent).toEqual([[1]]);
      vi.advanceTimersByTime(1_000);
      expect(sent).toEqual([[1], [2]]);
      open.pop()?.();
      expect(await next).toBe('answer 2');
      await endAll();
      expect(await stuck).toBe('answer 1');
    } finally {
      vi.useRealTimers();
    }
  });

  it('are in groups of a limited size', async () => {
    const { grouped, sent, endAll } = openGrouped(name);
    const answers = Promise.all(Array.from({ length: 120 }, (_, item) => grouped.take(item)));
    await endAll();
    expect((await answers).at(-1)).toBe('answer 119');
    expect(sent.map((group) => group.length)).toEqual([50, 50, 20]);
  });
});

/** Each group is answered when the test says so. */
function openGroups() {
  const sent: { readonly items: readonly number[]; readonly answer: (error?: Error) => void }[] =
    [];
  const groups = new KeyedGroups<number, number>(
    () =>
      new Grouped(
        (items) =>
          new Promise((resolve, reject) => {
            const answer = (error?: Error) => (error ? reject(error) : resolve(items));
            sent.push({ items, answer });
          }),
        () => true,
      ),
  );
  const isSent = (count: number) => expect.poll(() => sent.length).toBe(count);
  return { groups, sent, isSent };
}

it('calls of a key go together, and do not wait for those of another key', async () => {
  const { groups, sent, isSent } = openGroups();
  const calls = [groups.take('a', 1), groups.take('b', 2), groups.take('a', 3)];
  await isSent(2);
  expect(sent.map(({ items }) => items)).toEqual([[1, 3], [2]]);
  sent[1]?.answer();
  expect(await calls[1]).toBe(2);
  // It goes with the next group of its key.
  calls.push(groups.take('a', 4));
  sent[0]?.answer();
  await isSent(3);
  expect(sent[2]?.items).toEqual([4]);
  sent[2]?.answer();
  expect(await Promise.all(calls)).toEqual([1, 2, 3, 4]);
});

it('a key has ended when all its calls have, one that failed too', async () => {
  const { groups, sent, isSent } = openGroups();
  await groups.ended('a');
  const calls = [groups.take('a', 1), groups.take('b', 2)];
  let hasEnded = false;
  const ended = groups.ended('a').then(() => {
    hasEnded = true;
  });
  await isSent(2);
  sent[1]?.answer();
  await calls[1];
  expect(hasEnded).toBe(false);
  sent[0]?.answer(new Error('no'));
  await expect(calls[0]).rejects.toThrow('no');
  await ended;
  expect(hasEnded).toBe(true);
});
