import { expect, test } from 'vitest';
import { checkTwice, expectFound, type Job, jobOf } from '../../support/both-checkers.ts';
import { canonical, DeliveryHistory, keyOf } from '../../support/delivery-history.ts';

const order = 2n ** 252n + 27742317777372353535851937790883648493n;
const statement = (number: number) => `events/_sluice/statements/${number}.json`;
const keysFile = 'events/_sluice/keys.json';

function history(): DeliveryHistory {
  const made = new DeliveryHistory();
  const first = made.deliver(2);
  made.state();
  made.supplement(first, 1);
  made.deliver(1);
  made.state();
  return made;
}

// biome-ignore lint/suspicious/noExplicitAny: attacks give any value to any member
type Any = any;

const inStatement = (made: DeliveryHistory, number: number, change: (value: Any) => void) => {
  const value = JSON.parse(String(made.objects.get(statement(number))));
  change(value);
  return new Map([[statement(number), Buffer.from(canonical(value))]]);
};

/** A signature that is S of the order more, which is the same point. */
function aboveOrder(signature: string): string {
  const bytes = Buffer.from(signature, 'hex');
  const s = BigInt(`0x${bytes.subarray(32).reverse().toString('hex')}`);
  const text = (s + order).toString(16).padStart(64, '0');
  return bytes.subarray(0, 32).toString('hex') + Buffer.from(text, 'hex').reverse().toString('hex');
}

test('both refuse each receipt of a statement that no key of the list gave', async () => {
  const made = history();
  const changes: Readonly<Record<string, (value: Any) => void>> = {
    'S of the order or more': ({ receipt }) => {
      receipt.signature = aboveOrder(receipt.signature);
    },
    'upper case': ({ receipt }) => {
      receipt.signature = receipt.signature.toUpperCase();
    },
    'a key that is not in the list': ({ receipt }) => {
      receipt.key_id = keyOf('stranger').id;
    },
    'another algorithm': ({ receipt }) => {
      receipt.algorithm = 'ed25519';
    },
    'a fingerprint in place of an id': ({ receipt }) => {
      receipt.key_id = made.keys[0]?.fingerprint;
    },
    'no signature': ({ receipt }) => {
      receipt.signature = '';
    },
    'no receipt': (value) => {
      delete value.receipt;
    },
    'a text': (value) => {
      value.receipt = 'none';
    },
  };
  await expectFound(
    Object.entries(changes).map(([name, change]) => {
      return { name, base: made.objects, change: inStatement(made, 2, change) };
    }),
  );
});

test('both refuse a key with the key_id of another, and keys in a wrong order', async () => {
  const made = history();
  made.addKey('next');
  made.addKey('next');
  const { keys } = JSON.parse(String(made.objects.get(keysFile)));
  const [first, second, third] = keys;
  const lists = [
    [first, { ...second, key_id: first.key_id }, third],
    [first, second, second],
    [first, third, second],
    [second, third],
    [third],
    [first, third],
    [],
  ];
  const bytesOf = (keys: Any) => Buffer.from(canonical({ type: 'sluice.keys.v1', keys }));
  await expectFound(jobOf(made, ...lists.map((list) => new Map([[keysFile, bytesOf(list)]]))));
});

test('both refuse a key that signs itself with the key_id of another', async () => {
  for (const id of [keyOf('1 0').id, '0'.repeat(16)]) {
    const made = history();
    made.addKey('own', { ...keyOf('other'), id });
    await expectFound(jobOf(made, new Map()), /wrong signature/);
  }
});

test('both refuse bytes before and after', async () => {
  const made = history();
  const changes = [...made.objects]
    .filter(([key]) => !key.endsWith('.jsonl'))
    .flatMap(([key, bytes]) =>
      [
        ['\ufeff', ''],
        ['', '\n'],
        ['', '\0'],
        [' ', ''],
      ].map(
        ([before = '', after = '']) =>
          new Map([[key, Buffer.concat([Buffer.from(before), bytes, Buffer.from(after)])]]),
      ),
    );
  await expectFound(jobOf(made, ...changes));
});

test('both refuse a statement of another export, and one that is signed by an earlier key', async () => {
  const made = history();
  const stranger = new DeliveryHistory({ seed: 2 });
  stranger.deliver(1);
  stranger.state();
  await expectFound(
    jobOf(made, new Map([[statement(3), stranger.objects.get(statement(1)) ?? null]])),
  );
  const rotated = new DeliveryHistory();
  rotated.addKey('next');
  rotated.state();
  const [old, next] = [rotated.keys[0], rotated.keys.pop()];
  rotated.state();
  expect([old, next].includes(undefined)).toBe(false);
  await expectFound(jobOf(rotated, new Map()), /earlier key/);
});

test('the newest statement must follow from a given key', async () => {
  const made = history();
  const [first] = made.keys;
  made.addKey('next');
  made.state();
  const keys = (...given: (string | undefined)[]) => ({ keys: given.map((key) => key ?? '') });
  expect(await exits(made, keys(first?.fingerprint))).toEqual([0, 0]);
  expect(await exits(made, keys(first?.publicKey))).toEqual([0, 0]);
  expect(await exits(made, keys(made.newestKey().fingerprint))).toEqual([0, 0]);
  expect(await exits(made, keys(keyOf('stranger').fingerprint))).toEqual([1, 1]);
  made.addKey('own');
  made.state();
  expect(await exits(made, keys(first?.fingerprint))).toEqual([1, 1]);
  expect(await exits(made, keys(made.newestKey().fingerprint))).toEqual([0, 0]);
});

test('an interval of an earlier chain must be delivered in the new one', async () => {
  const made = history();
  made.beginChain('restored');
  made.state();
  expect(await exits(made)).toEqual([0, 0]);
  const lost = history();
  const gone = lost.intervals.pop();
  lost.beginChain('restored');
  lost.state();
  for (const { entry } of gone?.files ?? []) lost.objects.delete(entry.key);
  await expectFound(
    jobOf(lost, new Map(gone?.manifest ? [[gone.manifest, null]] : [])),
    /earlier chain/,
  );
});

test('intervals that had more rows in an earlier chain are counted', async () => {
  const made = history();
  const [first] = made.intervals;
  if (first) made.remove(first, 1);
  made.beginChain('restored');
  made.state();
  const [result] = await checkTwice([{ base: made.objects, deep: true }]);
  const counted = {
    exit: 0,
    lines: expect.arrayContaining([expect.stringMatching(/^1 .* more rows/)]),
  };
  expect(result?.answers).toMatchObject([counted, counted]);
});

test('intervals that an earlier chain had, and the new one accepts as missing, are counted', async () => {
  const made = history();
  const last = made.intervals.at(-1);
  if (last) last.after = { state: 'accepted', rows: 0, bytes: 0, files: 0 };
  made.beginChain('restored');
  made.state();
  const [result] = await checkTwice([{ base: made.objects, deep: true }]);
  const counted = {
    exit: 0,
    lines: expect.arrayContaining([expect.stringMatching(/^1 .* given up/)]),
  };
  expect(result?.answers).toMatchObject([counted, counted]);
});

test('a backfill from before the first period tiles nothing, and may not overlap', async () => {
  const made = history();
  made.backfill('2025-01-01T00:00:00.000000Z', 2);
  expect(await exits(made)).toEqual([0, 0]);
  made.state();
  made.backfill('2025-01-01T02:00:00.000000Z', 1);
  made.backfill('2025-01-01T01:00:00.000000Z', 1);
  made.deliver(1);
  made.state();
  expect(await exits(made)).toEqual([0, 0]);
  made.backfill('2025-01-01T01:59:59.999000Z', 1);
  made.state();
  await expectFound(jobOf(made, new Map()), /overlap/);
  const twice = history();
  for (const rows of [1, 2]) twice.backfill('2025-01-01T00:00:00.000000Z', rows);
  twice.state();
  await expectFound(jobOf(twice, new Map()), /is not as it was/);
  const inside = history();
  inside.backfill('2026-11-29T23:30:00.000000Z', 1);
  inside.state();
  await expectFound(jobOf(inside, new Map()), /does not begin/);
});

test('both find an earlier manifest in place of the newest', async () => {
  const made = history();
  const old = new DeliveryHistory();
  old.deliver(2);
  const key = old.intervals[0]?.manifest ?? '';
  await expectFound(jobOf(made, new Map([[key, old.objects.get(key) ?? null]])), /newer/);
});

async function exits(made: DeliveryHistory, options: Partial<Job> = {}) {
  const [result] = await checkTwice([{ base: made.objects, deep: true, ...options }]);
  return result?.answers.map((answer) => answer?.exit);
}
