import { expect, test } from 'vitest';
import { checkTwice, expectFound } from '../../support/both-checkers.ts';
import { DeliveryHistory } from '../../support/delivery-history.ts';

// biome-ignore lint/suspicious/noExplicitAny: attacks give any value to any member
type Any = any;

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
