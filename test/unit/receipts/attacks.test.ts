import { sign } from 'node:crypto';
import { expect, test } from 'vitest';
import { checkTwice, type Job } from '../../support/both-checkers.ts';
import { canonical, DeliveryHistory, keyOf, sha256Of } from '../../support/delivery-history.ts';

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

/** The bytes of a statement after a change of its text, signed again as they are. */
function signedText(
  made: DeliveryHistory,
  number: number,
  change: (text: string) => string,
): Buffer {
  const { receipt, ...rest } = JSON.parse(String(made.objects.get(statement(number))));
  const text = change(canonical(rest));
  expect(text === canonical(rest)).toBe(false);
  const signature = sign(null, Buffer.from(text), made.newestKey().secret).toString('hex');
  const added = `"receipt":${canonical({ ...receipt, signature })},"reconciliation"`;
  return Buffer.from(text.replace('"reconciliation"', added));
}

/** The signer itself writes something that no checker may accept. */
const byText: Readonly<Record<string, (text: string) => string>> = {
  'a number with a point': (text) => text.replace('"rows":2', '"rows":2.0'),
  'a number with an exponent': (text) => text.replace('"rows":2', '"rows":2e0'),
  'minus zero': (text) => text.replace('"offset_seconds":0', '"offset_seconds":-0'),
  'a fraction': (text) => text.replace('"offset_seconds":0', '"offset_seconds":0.5'),
  'a number above 2^53': (text) =>
    text.replace('"offset_seconds":0', '"offset_seconds":9007199254740993'),
  'a number of many digits': (text) =>
    text.replace('"offset_seconds":0', `"offset_seconds":${'9'.repeat(400_000)}`),
  NaN: (text) => text.replace('"offset_seconds":0', '"offset_seconds":NaN'),
  'a name twice': (text) => text.replace('"number":1', '"number":1,"number":1'),
  'names in another order': (text) =>
    text.replace('"era":"e-1",', '').replace('{', '{"era":"e-1",'),
  'a space': (text) => text.replace('"number":1', '"number": 1'),
  'an escape that is not needed': (text) => text.replace('"era":"e-1"', '"era":"\\u0065-1"'),
  'an escape in upper case': (text) => text.replace('\\u0001', '\\U0001'),
  'a name that is not ASCII': (text) => text.replace('"timezone"', '"timezoné"'),
  'half a character': (text) => text.replace('"era":"e-1"', '"era":"\\ud800"'),
  'a deep list': (text) =>
    text.replace('"missing":[]', `"missing":${'['.repeat(200_000)}${']'.repeat(200_000)}`),
  'a list of 70 levels': (text) =>
    text.replace('"missing":[]', `"missing":${'['.repeat(70)}${']'.repeat(70)}`),
};

test('both refuse a signed statement that has other bytes than its value', async () => {
  const made = history();
  const bytesOf = (change: (text: string) => string) => signedText(made, 1, change);
  await expectFound(
    Object.entries(byText).map(([name, change]) => ({
      name,
      base: made.objects,
      change: new Map([[statement(1), bytesOf(change)]]),
    })),
  );
});

/** The same with values: the statement is canonical, and its signature is right. */
const byValue: Readonly<Record<string, (made: Any) => void>> = {
  'a number as text': (made) => {
    made.balance.opening.rows = '3';
  },
  'a count as text': (made) => {
    made.bookings[0].after.rows = '3';
  },
  'true as a number': (made) => {
    made.number = true;
  },
  'an instant without a fraction': (made) => {
    made.made_at = '2026-11-30T00:00:00Z';
  },
  'an instant with an offset': (made) => {
    made.made_at = '2026-11-30T00:00:00.000000+00:00';
  },
  'an instant that does not exist': (made) => {
    made.made_at = '2026-02-30T00:00:00.000000Z';
  },
  'the hour 24': (made) => {
    made.made_at = '2026-11-30T24:00:00.000000Z';
  },
  'a leap second': (made) => {
    made.made_at = '2026-12-31T23:59:60.000000Z';
  },
  'digits of another script': (made) => {
    made.made_at = '２026-11-30T00:00:00.000000Z';
  },
  'an instant with a line feed': (made) => {
    made.made_at += '\n';
  },
  'a gap of a microsecond': (made) => {
    made.bookings[1].start = made.bookings[1].start.replace('00.000000', '00.000001');
  },
  'an overlap': (made) => {
    made.bookings[1].start = '2026-11-30T00:59:59.999999Z';
  },
  'an interval after the period': (made) => {
    made.period.end = made.period.start;
  },
  'a period that lacks an interval': (made) => {
    made.bookings.pop();
  },
  'a period that begins late': (made) => {
    made.period.start = made.period.end;
    made.bookings.pop();
  },
  'another before': (made) => {
    made.bookings[0].before.bytes += 1;
  },
  'no before': (made) => {
    made.bookings[0].before = null;
  },
  'rows that vanish': (made) => {
    made.bookings[0].after.rows = 1;
    made.bookings[0].kind = 'remade';
    made.bookings[0].note = null;
  },
  'a supplement of other rows': (made) => {
    made.bookings[0].note.rows = 2;
  },
  'a negative count': (made) => {
    made.bookings[0].after.files = -1;
  },
  'an unknown kind': (made) => {
    made.bookings[0].kind = 'constructor';
  },
  'a kind that is a list': (made) => {
    made.bookings[1].kind = ['delivered'];
  },
  'an unknown state': (made) => {
    made.bookings[1].after.state = 'gone';
  },
  'a digest in upper case': (made) => {
    made.bookings[1].after.manifest.sha256 = made.bookings[1].after.manifest.sha256.toUpperCase();
  },
  'a digest in a list': (made) => {
    made.previous.sha256 = [made.previous.sha256];
  },
  'another balance': (made) => {
    made.balance.closing.bytes += 1;
  },
  'a balance that overflows': (made) => {
    made.bookings[1].after.bytes = Number.MAX_SAFE_INTEGER;
    made.balance.closing.bytes = Number.MAX_SAFE_INTEGER;
  },
  'an opening out of nothing': (made) => {
    made.balance.opening.rows += 1;
    made.balance.closing.rows += 1;
  },
  'another export': (made) => {
    made.batch_export_id = 'another';
  },
  'another chain': (made) => {
    made.chain = 'another';
  },
  'another number': (made) => {
    made.number = 3;
  },
  'another type': (made) => {
    made.type = 'sluice.statement.v2';
  },
  'another statement before': (made) => {
    made.previous.sha256 = '0'.repeat(64);
  },
  'a chain that begins without the statement before': (made) => {
    made.begins = { reason: 'restored', last_number: 0, last_sha256: null };
    made.previous = null;
    made.chain = 'b';
  },
  'a place outside': (made) => {
    made.place.prefix = '..';
    made.bookings[1].after.place = 's3://bucket/..';
    made.bookings[1].after.manifest.key = '../events/x';
  },
  'a key outside': (made) => {
    made.bookings[1].after.manifest.key = 'events/../../x';
  },
  'a missing member': (made) => {
    delete made.era;
  },
  'a member of another type': (made) => {
    made.period = [];
  },
};

test('both refuse a signed statement that does not follow from those before', async () => {
  await expectFound(
    Object.entries(byValue).map(([name, attack]) => {
      const made = new DeliveryHistory();
      const first = made.deliver(2);
      made.state();
      made.supplement(first, 1);
      made.deliver(1);
      made.state((right) => {
        const changed = structuredClone(right) as Any;
        attack(changed);
        return changed;
      });
      return { name, base: made.objects };
    }),
  );
});

const inStatement = (made: DeliveryHistory, number: number, change: (value: Any) => void) => {
  const value = JSON.parse(String(made.objects.get(statement(number))));
  change(value);
  return new Map([[statement(number), Buffer.from(canonical(value))]]);
};

test('both refuse a signature with S of the order or more', async () => {
  const made = history();
  await expectFound(
    jobOf(
      made,
      inStatement(made, 2, ({ receipt }) => {
        const bytes = Buffer.from(receipt.signature, 'hex');
        let s = 0n;
        for (const byte of bytes.subarray(32).reverse()) s = s * 256n + BigInt(byte);
        receipt.signature = bytes.subarray(0, 32).toString('hex') + little(s + order);
      }),
    ),
  );
});

test('both refuse a signature in upper case', async () => {
  const made = history();
  await expectFound(
    jobOf(
      made,
      inStatement(made, 2, ({ receipt }) => {
        receipt.signature = receipt.signature.toUpperCase();
      }),
    ),
  );
});

test('both refuse a receipt of a key that is not in the list, of another algorithm, and none', async () => {
  const made = history();
  const changes = [
    { key_id: keyOf('stranger').id },
    { algorithm: 'ed25519' },
    { key_id: made.keys[0]?.fingerprint },
    { signature: '' },
  ].map((change) => inStatement(made, 2, ({ receipt }) => Object.assign(receipt, change)));
  await expectFound(
    jobOf(
      made,
      ...changes,
      inStatement(made, 2, (value) => {
        delete value.receipt;
      }),
      inStatement(made, 2, (value) => {
        value.receipt = 'none';
      }),
    ),
  );
});

const little = (value: bigint) =>
  Buffer.from(value.toString(16).padStart(64, '0'), 'hex').reverse().toString('hex');
const p = 2n ** 255n - 19n;
const smallOrder = [
  0n,
  1n,
  p - 1n,
  p,
  p + 1n,
  ...[
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  ].map((hex) => BigInt(`0x${Buffer.from(hex, 'hex').reverse().toString('hex')}`)),
].flatMap((y) => [little(y), little(y + 2n ** 255n)]);

test('both refuse keys of small order, which fit signatures of others', async () => {
  // R is the neutral point and S is zero: with a key of order one this fits each message.
  const signature = `01${'00'.repeat(63)}`;
  await expectFound(
    smallOrder.map((publicKey) => {
      const made = new DeliveryHistory();
      const id = sha256Of(Buffer.from(publicKey, 'hex')).slice(0, 16);
      const receipt = { key_id: id, algorithm: 'Ed25519', signature };
      made.deliver(1);
      made.state();
      const entry = {
        key_id: id,
        algorithm: 'Ed25519',
        public_key: publicKey,
        created_at: '2026-11-30T00:00:00.000000Z',
        signed_by: id,
        signature,
      };
      const keys = Buffer.from(canonical({ type: 'sluice.keys.v1', keys: [entry] }));
      const change = new Map([
        ...inStatement(made, 1, (value) => {
          value.receipt = receipt;
        }),
        [keysFile, keys],
      ]);
      return { name: publicKey, base: made.objects, change };
    }),
    /safe/,
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

test('a given key must be there, and the newest statement must follow from it', async () => {
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

type Attack = Job & { readonly name: string };

const jobOf = (made: DeliveryHistory, ...changes: ReadonlyMap<string, Buffer | null>[]): Attack[] =>
  changes.map((change, index) => ({ name: `change ${index + 1}`, base: made.objects, change }));

/** All in one process of Python. */
async function expectFound(attacks: readonly Attack[], reason = /^WRONG: [^\n]{10,}$/) {
  const results = await checkTwice(attacks.map((attack) => ({ ...attack, deep: true })));
  const missed = results.flatMap(({ answers }, index) => {
    const isFound = answers.every((one) => one?.exit === 1 && reason.test(one.lines.at(-1) ?? ''));
    return isFound
      ? []
      : [[attacks[index]?.name, ...answers.map((one) => [one?.exit, one?.lines.at(-1)])]];
  });
  expect(missed).toEqual([]);
  expect(results.length).toBe(attacks.length);
}
