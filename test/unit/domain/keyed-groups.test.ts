import { expect, it } from 'vitest';
import { Grouped } from '../../../src/foundation/domain/grouped.ts';
import { KeyedGroups } from '../../../src/foundation/domain/keyed-groups.ts';

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
