import { expect, test } from 'vitest';
import {
  type CursorChange,
  type IntervalChange,
  readChanges,
} from '../../../client/reader/index.js';
import { DeliveryHistory, keyOf } from '../../support/delivery-history.ts';

/** A target that remembers which files it holds. */
class Target {
  readonly held = new Map<string, Set<string>>();
  cursor: CursorChange['cursor'] | null = null;

  async read(history: DeliveryHistory, key = history.keys[0]?.fingerprint ?? '') {
    const changes: (IntervalChange | CursorChange)[] = [];
    const options = {
      readObject: async (name: string) => history.objects.get(name) ?? null,
      prefix: history.prefix,
      keys: [key],
      cursor: this.cursor,
      heldFiles: ({ start }: { start: string }) => [...(this.held.get(start) ?? [])],
    };
    for await (const change of readChanges(options)) {
      changes.push(change);
      if (change.type === 'cursor') this.cursor = change.cursor;
      else {
        const files = this.held.get(change.start) ?? new Set();
        this.held.set(change.start, files);
        for (const id of change.remove) files.delete(id);
        for (const file of change.add) {
          await file.read();
          files.add(file.id);
        }
      }
    }
    return changes;
  }
}
const summary = (changes: readonly (IntervalChange | CursorChange)[]) =>
  changes.map((change) =>
    change.type === 'cursor'
      ? [change.cursor.number, change.chains, change.waiting]
      : [
          change.start.slice(11, 13),
          change.kinds,
          change.rows,
          change.add.length,
          change.remove.length,
        ],
  );

test('gives files to add and files that were replaced, in order', async () => {
  const history = new DeliveryHistory();
  const target = new Target();
  expect(await target.read(history)).toEqual([]);
  const first = history.deliver(2, 1);
  const second = history.deliver(3);
  history.skip('open');
  history.state();
  const changes = await target.read(history);
  expect(changes[0]).toMatchObject({ mode: 'append', element: null });
  expect(changes[2]).toMatchObject({ mode: null, element: null });
  expect(summary(changes)).toEqual([
    ['00', ['delivered'], 3, 2, 0],
    ['01', ['delivered'], 3, 1, 0],
    ['02', ['open'], 0, 0, 0],
    [1, [], 0],
  ]);
  expect(await target.read(history)).toEqual([]);
  history.supplement(second, 1);
  history.erase(first, 'p1');
  history.state();
  history.supplement(second, 2);
  history.state();
  expect(summary(await target.read(history))).toEqual([
    ['00', ['erased'], 2, 1, 1],
    ['01', ['supplement', 'supplement'], 6, 2, 0],
    [3, [], 0],
  ]);
  history.remove(second, 6);
  history.state();
  expect(summary(await target.read(history))).toEqual([
    ['01', ['removed'], 0, 0, 3],
    [4, [], 0],
  ]);
});

test('leaves an interval that changed after the newest statement to the next one', async () => {
  const history = new DeliveryHistory();
  const target = new Target();
  const first = history.deliver(2);
  history.state();
  history.remake(first, 1);
  expect(summary(await target.read(history))).toEqual([[1, [], 1]]);
  history.state();
  expect(summary(await target.read(history))).toEqual([
    ['00', ['remade'], 3, 1, 0],
    [2, [], 0],
  ]);
});

test('says which chain began, and goes on in it', async () => {
  const history = new DeliveryHistory();
  const target = new Target();
  history.deliver(2);
  history.state();
  await target.read(history);
  history.beginChain('restored');
  history.deliver(1);
  history.state();
  expect(summary(await target.read(history))).toEqual([
    ['00', ['delivered'], 2, 0, 0],
    ['01', ['delivered'], 1, 1, 0],
    [2, [{ number: 2, reason: 'restored' }], 0],
  ]);
});

test('refuses what is not signed by a key that follows from the given one', async () => {
  const history = new DeliveryHistory();
  history.deliver(1);
  history.state();
  history.addKey('next');
  history.state();
  expect((await new Target().read(history)).length).toBe(2);
  await refuses(new Target().read(history, keyOf('stranger').fingerprint), /given key/);
  history.addKey('own');
  history.state();
  await refuses(new Target().read(history), /given key/);
  await refuses(new Target().read(history, ''), /given key/);
  const options = { readObject: async () => null, heldFiles: () => [] };
  await refuses(readChanges(options).next(), /keys is empty/);
});

test('gives nothing of an object that changed', async () => {
  for (const name of [
    'keys.json',
    'statements/1.json',
    'statements/2.json',
    '_manifest.json',
    '.jsonl',
  ]) {
    const history = new DeliveryHistory();
    history.deliver(1);
    history.state();
    history.state();
    const key = [...history.objects.keys()].find((one) => one.endsWith(name)) ?? '';
    const bytes = Buffer.from(history.objects.get(key) ?? '');
    bytes[bytes.length - 8] = (bytes[bytes.length - 8] ?? 0) ^ 1;
    history.objects.set(key, bytes);
    await refuses(new Target().read(history), /_sluice|manifest|jsonl/);
    history.objects.delete(key);
    if (name !== 'statements/2.json' && name !== 'statements/1.json')
      await refuses(new Target().read(history), /missing/);
  }
});

test('refuses a bucket without the statement of the cursor', async () => {
  const history = new DeliveryHistory();
  const target = new Target();
  history.deliver(1);
  history.state();
  await target.read(history);
  const other = new DeliveryHistory();
  other.deliver(2);
  await refuses(target.read(other), /cursor is missing/);
  other.state();
  await refuses(target.read(other), /not the statement of the cursor/);
});

async function refuses(work: Promise<unknown>, reason: RegExp) {
  const error = await work.then(
    () => 'nothing',
    (thrown: unknown) => String(thrown),
  );
  expect(error).toMatch(reason);
}
