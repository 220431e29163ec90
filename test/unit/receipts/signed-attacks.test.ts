import { sign } from 'node:crypto';
import { expect, test } from 'vitest';
import { checkTwice, expectFound } from '../../support/both-checkers.ts';
import { canonical, DeliveryHistory } from '../../support/delivery-history.ts';

const statement = (number: number) => `events/_sluice/statements/${number}.json`;

function history(): DeliveryHistory {
  const made = new DeliveryHistory();
  made.deliver(2);
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
  'half a character': (text) => text.replace('"era":"e-1"', '"era":"\\ud800"'),
  'a deep list': (text) =>
    text.replace('"missing":[]', `"missing":${'['.repeat(200_000)}${']'.repeat(200_000)}`),
};

test('both refuse a signed statement that has other bytes than its value', async () => {
  const made = history();
  const attack = (change: (text: string) => string) => ({
    base: made.objects,
    change: new Map([[statement(1), signedText(made, 1, change)]]),
  });
  const [right] = await checkTwice([attack((text) => text)]);
  expect(right?.answers.map((answer) => answer?.exit)).toEqual([0, 0]);
  await expectFound(Object.entries(byText).map(([name, change]) => ({ name, ...attack(change) })));
});

/** The last interval ends at another instant, and the period with it. */
const until = (text: string) => ({ 'bookings.1.end': text, 'period.end': text });

/** The same with values: the statement is canonical, and its signature is right. A path gets its value; undefined: it goes. */
const byMember: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'a number as text': { 'balance.opening.rows': '3' },
  'a count as text': { 'bookings.0.after.rows': '3' },
  'true as a number': { number: true },
  'an instant without a fraction': until('2026-11-30T02:00:00Z'),
  'an instant with an offset': until('2026-11-30T02:00:00.000000+00:00'),
  'digits of another script': until('２026-11-30T02:00:00.000000Z'),
  'an overlap': { 'bookings.1.start': '2026-11-30T00:59:59.999999Z' },
  'no before': { 'bookings.0.before': null },
  'a negative count': { 'bookings.0.after.files': -1 },
  'an unknown kind': { 'bookings.0.kind': 'constructor' },
  'a kind that is a list': { 'bookings.1.kind': ['delivered'] },
  'an unknown state': { 'bookings.1.after.state': 'gone' },
  'a balance that overflows': {
    'bookings.1.after.bytes': Number.MAX_SAFE_INTEGER,
    'balance.closing.bytes': Number.MAX_SAFE_INTEGER,
  },
  'another export': { batch_export_id: 'another' },
  'another number': { number: 3 },
  'another type': { type: 'sluice.statement.v2' },
  'another statement before': { 'previous.sha256': '0'.repeat(64) },
  'a chain that begins without the statement before': { begins: 'restored', previous: null },
  'a place outside': {
    'place.prefix': '..',
    'bookings.1.after.place': 's3://bucket/..',
    'bookings.1.after.manifest.key': '../events/x',
  },
  'a key outside': { 'bookings.1.after.manifest.key': 'events/../../x' },
  'rows of an accepted interval': {
    'bookings.1.kind': 'accepted',
    'bookings.1.after': { state: 'accepted', rows: 1, bytes: 0, files: 0 },
    'bookings.1.note': { by: 'x', reason: 'y' },
  },
  'a supplement of an interval that was never delivered': { 'bookings.1.kind': 'supplement' },
  'no chain that begins': { begins: 'restored' },
  'a missing member': { period: undefined },
  'a member of another type': { 'bookings.1.after': [] },
  'a booking that is null': { 'bookings.0': null },
  'a manifest that is no object': { 'bookings.1.after.manifest': 'x' },
  'a manifest without a digest': { 'bookings.1.after.manifest': { key: 'x' } },
  'an empty interval with rows': { 'bookings.1.kind': 'empty', 'bookings.1.after.state': 'empty' },
  'a manifest elsewhere without a digest': {
    'bookings.1.after.place': 's3://elsewhere',
    'bookings.1.after.manifest': { key: 'x' },
  },
  'a place that is a number': { 'place.prefix': 1 },
  'a part of the balance that is missing': { 'balance.erased': undefined },
};

function setMembers(made: Any, members: Readonly<Record<string, unknown>>): void {
  for (const [path, value] of Object.entries(members)) {
    const names = path.split('.');
    const last = names.pop() ?? '';
    const owner = names.reduce((at, name) => at[name], made);
    if (value === undefined) delete owner[last];
    else owner[last] = value;
  }
}

const byValue: Readonly<Record<string, (made: Any) => void>> = {
  ...Object.fromEntries(
    Object.entries(byMember).map(([name, members]) => [
      name,
      (made: Any) => setMembers(made, members),
    ]),
  ),
  'an instant with a line feed': (made) => {
    setMembers(made, until(`${made.period.end}\n`));
  },
  'a gap of a microsecond': (made) => {
    made.bookings[1].start = made.bookings[1].start.replace('00.000000', '00.000001');
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
  'rows that vanish': (made) => {
    made.bookings[0].after.rows = 1;
    made.bookings[0].kind = 'remade';
    made.bookings[0].note = null;
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
  'the manifest of a later interval': (made) => {
    made.bookings[0].after.manifest = made.bookings[1].after.manifest;
  },
  'an opening out of nothing': (made) => {
    made.balance.opening.rows += 1;
    made.balance.closing.rows += 1;
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

test('both refuse rows that vanish without a line for it, although the balance adds up', async () => {
  const made = removedOne();
  made.state((right) => {
    const changed = structuredClone(right) as Any;
    const { balance, bookings } = changed;
    Object.assign(bookings[0], { kind: 'remade', note: null });
    for (const sum of ['rows', 'bytes', 'files']) {
      balance.delivered[sum] = -balance.removed[sum];
      balance.removed[sum] = 0;
    }
    return changed;
  });
  const [unasked, unmoved] = [removedOne(), removedOne()];
  unasked.state((right) => {
    const changed = structuredClone(right) as Any;
    delete changed.bookings[0].note.by;
    return changed;
  });
  unmoved.state((right) => {
    const changed = structuredClone(right) as Any;
    Object.assign(changed.bookings[0], { kind: 'moved', note: null });
    return changed;
  });
  await expectFound([
    { name: 'remade', base: made.objects, reason: /loses rows/ },
    { name: 'nobody asked', base: unasked.objects, reason: /who asked/ },
    { name: 'moved nowhere', base: unmoved.objects, reason: /loses rows/ },
  ]);
});

function removedOne(): DeliveryHistory {
  const made = new DeliveryHistory();
  const first = made.deliver(3);
  made.state();
  made.remove(first, 1);
  return made;
}

/** The signer itself writes a manifest that no checker may accept. Its digest is in the statement, and its receipt is right. */
const attacks: Readonly<Record<string, readonly [(manifest: Any) => unknown, RegExp]>> = {
  'another export': [(made) => Object.assign(made, { batch_export_id: 'x' }), /another export/],
  'another interval': [
    (made) => Object.assign(made, { data_interval_end: '2026-11-30T02:00:00.000000Z' }),
    /another interval/,
  ],
  'rows that its files do not have': [
    (made) => Object.assign(made.files[0], { rows: 1 }),
    /totals/,
  ],
  'other rows than the booking': [
    (made) => {
      made.files[0].rows += 1;
      made.total_rows += 1;
    },
    /its booking/,
  ],
  'another generation': [(made) => Object.assign(made, { generation: 7 }), /its booking/],
  'a file that is missing': [
    (made) => Object.assign(made.files[0], { key: 'events/x' }),
    /missing/,
  ],
  'a file outside': [
    (made) => Object.assign(made.files[0], { key: 'events/../secret' }),
    /not a key below/,
  ],
  'a file of another export': [
    (made) => Object.assign(made.files[0], { key: 'elsewhere/x' }),
    /not a key below/,
  ],
  'a file twice': [
    (made) => Object.assign(made.files[1], { key: made.files[0].key }),
    /named twice| bytes instead/,
  ],
  'a file of another size': [
    (made) => {
      made.files[0].bytes += 1;
      made.files[1].bytes -= 1;
    },
    /bytes/,
  ],
  'another digest of a file': [
    (made) => Object.assign(made.files[0], { sha256: '0'.repeat(64) }),
    /SHA-256/,
  ],
  'a row too many in one file and one too few in another': [
    (made) => {
      made.files[0].rows += 1;
      made.files[1].rows -= 1;
    },
    / rows instead of /,
  ],
  'a file that is null': [(made) => made.files.push(null), /null|NoneType/],
  'a file without a digest': [(made) => Object.assign(made.files[0], { sha256: null }), /SHA-256/],
  'a number with a fraction': [(made) => Object.assign(made, { attempt: 0.5 }), /JSON/],
};

test('both refuse signed manifests that say something wrong', async () => {
  const all = (['jsonl', 'csv.gz'] as const).flatMap((format) =>
    Object.entries(attacks).map(([name, [attack, reason]]) => {
      const made = new DeliveryHistory({ format });
      made.alter = (manifest) => {
        const changed = structuredClone(manifest);
        attack(changed);
        return changed;
      };
      made.deliver(4, 2);
      made.state();
      return { name, base: made.objects, reason };
    }),
  );
  await expectFound(all);
});

test('replaced files that a table still needs are right, and elsewhere wrong', async () => {
  const answers = [];
  for (const table of ['iceberg', undefined]) {
    const history = new DeliveryHistory();
    history.deliver(1);
    history.state((statement) => ({
      ...statement,
      place: { ...(statement as Any).place, ...(table && { table }) },
    }));
    history.objects.set('events/replaced.parquet', Buffer.from('x'));
    const [result] = await checkTwice([{ base: history.objects, head: history.head }]);
    answers.push(result?.answers.map((one) => [one?.exit, one?.lines.join()]));
  }
  const counted = [0, expect.stringContaining('were not looked for')];
  const wrong = [1, expect.stringContaining('replaced.parquet is in no manifest')];
  expect(answers).toEqual([
    [counted, counted],
    [wrong, wrong],
  ]);
});

test('rejected rows are files too', async () => {
  const made = new DeliveryHistory();
  const rejected = Buffer.from('{"reason":"x"}\n');
  const file = { key: 'events/x_rejected.jsonl', generation: 1, rows: 1, bytes: rejected.length };
  const sha256 = '2a43fc1ee43ab6a2bcbdf3f7ab0d9a2dc3b7e2f7e1cbd9d3e3a3a3a3a3a3a3a3';
  made.alter = (manifest) => ({
    ...manifest,
    rejected_rows: 1,
    rejected_files: [{ ...file, sha256 }],
  });
  made.deliver(1);
  made.state();
  await expectFound([{ name: 'missing', base: made.objects }], /missing/);
  made.objects.set(file.key, rejected);
  await expectFound([{ name: 'another digest', base: made.objects }], /SHA-256/);
  const [result] = await checkTwice([{ base: made.objects }]);
  expect(result?.answers.map((answer) => answer?.exit)).toEqual([0, 0]);
});
