import { expect, test } from 'vitest';
import { checkTwice, type Job } from '../../support/both-checkers.ts';
import {
  DeliveryHistory,
  type Format,
  type JsonObject,
  sha256Of,
  withReceipt,
} from '../../support/delivery-history.ts';
import { atNight, isNightly } from '../../support/nightly.ts';
import { randomOf } from '../../support/random.ts';

/** Numbers below `end` from a seed. */
function numbersOf(seed: number) {
  const { next } = randomOf(seed, 'history');
  return (end: number) => Math.floor(next() * end);
}
type Random = ReturnType<typeof numbersOf>;

const formats: readonly Format[] = ['jsonl', 'jsonl.gz', 'csv', 'csv.gz'];
const pick = <T>(random: Random, items: readonly T[]): T | undefined => items[random(items.length)];

function randomHistory(seed: number): DeliveryHistory {
  const random = numbersOf(seed);
  const format = pick(random, formats) ?? 'jsonl';
  const history = new DeliveryHistory({
    seed,
    format,
    prefix: pick(random, ['', 'events', 'a/b é']) ?? '',
  });
  const [mode, rejects] = [random(3), random(3) === 0];
  const rejected = new Map<unknown, string>();
  history.alter = (manifest) => {
    const ofMode = inMode(manifest, mode);
    history.objects.delete(rejected.get(manifest.data_interval_start) ?? '');
    if (!rejects || random(2) === 0) return ofMode;
    const made = withRejected(history, ofMode, 1 + random(3));
    rejected.set(manifest.data_interval_start, made.key);
    return made.manifest;
  };
  const at = (path: string) => (history.prefix === '' ? path : `${history.prefix}/${path}`);
  // Objects of a table, and of an interval that has moved to another key of this place.
  if (random(4) === 0) history.objects.set(at('metadata/v1.metadata.json'), Buffer.from('{}'));
  if (random(4) === 0) history.objects.set(at('old_manifest.json'), movedManifest(history));
  for (let statements = 1 + random(4); statements > 0; statements -= 1) {
    for (let steps = random(6); steps > 0; steps -= 1) step(history, random);
    if (random(6) === 0) history.addKey(random(4) === 0 ? 'own' : 'next');
    if (history.head && random(8) === 0) history.beginChain('restored');
    if (history.head && history.prefix !== '' && random(12) === 0)
      history.move(`moved-${statements}`);
    history.state();
  }
  for (let steps = random(3); steps > 0; steps -= 1) step(history, random);
  return history;
}

/** Manifests of the modes have more members. */
function inMode(manifest: JsonObject, mode: number): JsonObject {
  const number = Number(String(manifest.data_interval_start).slice(11, 13));
  const element = { number, follows: number === 0 ? null : number - 1, base: null, deletes: 1 };
  const snapshot_at = manifest.total_rows === 0 ? null : manifest.data_interval_end;
  if (mode === 1) return { ...manifest, mode: 'changes', element };
  return mode === 2
    ? { ...manifest, mode: 'snapshot', snapshot_at: snapshot_at ?? null }
    : manifest;
}

function withRejected({ objects, prefix }: DeliveryHistory, manifest: JsonObject, rows: number) {
  const bytes = Buffer.from('{"reason":"x"}\n'.repeat(rows));
  const { data_interval_start: start, generation } = manifest;
  const name = `${String(start).replaceAll(':', '')}.v${generation}_rejected.jsonl`;
  const key = prefix === '' ? name : `${prefix}/${name}`;
  objects.set(key, bytes);
  const file = { key, generation: 1, rows, bytes: bytes.length, sha256: sha256Of(bytes) };
  return { key, manifest: { ...manifest, rejected_rows: rows, rejected_files: [file] } };
}

function movedManifest(history: DeliveryHistory): Buffer {
  const nothing = {
    total_rows: 0,
    total_bytes: 0,
    files: [],
    rejected_rows: 0,
    rejected_files: [],
  };
  const manifest = withReceipt(
    {
      ...{ batch_export_id: history.exportId, generation: 1, ...nothing, moved_to: 'other' },
      data_interval_start: '2026-11-30T00:00:00.000000Z',
      data_interval_end: '2026-11-30T01:00:00.000000Z',
    },
    history.newestKey(),
  );
  return Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
}

function step(history: DeliveryHistory, random: Random): void {
  const { intervals } = history;
  const inState = (...states: string[]) =>
    pick(
      random,
      intervals.filter(({ after }) => states.includes(after?.state ?? '')),
    );
  const delivered = inState('delivered');
  const missing = inState('open', 'accepted', 'not_due');
  const isHere = delivered?.manifest?.startsWith(history.prefix);
  const steps = [
    () => history.deliver(1 + random(3), random(3)),
    () => history.deliver(1 + random(3)),
    () => history.skip(pick(random, ['empty', 'open', 'not_due'] as const) ?? 'open'),
    () => missing && history.redeliver(missing, 1 + random(3)),
    () => missing && history.accept(missing),
    () => delivered && isHere && history.supplement(delivered, 1 + random(2)),
    () => delivered && isHere && history.remake(delivered, random(2)),
    () => delivered && isHere && history.remove(delivered, random(2)),
    () => delivered && isHere && history.erase(delivered, `p${random(3)}`),
    () => delivered && !isHere && history.moveInterval(delivered),
  ];
  pick(random, steps)?.();
}

/** A fault of the bucket, or none. */
function faultOf({ objects }: DeliveryHistory, random: Random): Map<string, Buffer | null> {
  const keys = [...objects.keys()];
  const key = pick(random, keys) ?? '';
  const other = pick(random, keys) ?? '';
  const bytes = objects.get(key) ?? Buffer.alloc(0);
  const at = random(bytes.length);
  const changed = Buffer.from(bytes);
  changed[at] = random(256);
  const faults: readonly [string, Buffer | null][] = [
    [key, null],
    [key, bytes.subarray(0, at)],
    [key, Buffer.concat([bytes, Buffer.from('\n')])],
    [key, changed],
    [key, objects.get(other) ?? null],
    [`${key}.copy`, bytes],
    [
      key.replace(/\d+\.json$/, (name) => `${Number.parseInt(name, 10) + 1 + random(3)}.json`),
      bytes,
    ],
  ];
  return new Map([faults[random(faults.length)] ?? faults[0] ?? [key, null]]);
}

test('both agree on random histories, with faults and without', async () => {
  const jobs = Array.from({ length: isNightly ? 1_200 : 100 }, (_, seed): Job => {
    const random = numbersOf(seed * 7_919);
    const history = randomHistory(seed);
    return {
      base: history.objects,
      deep: random(2) === 0,
      ...(seed % 3 === 0 ? {} : { change: faultOf(history, random) }),
      ...(random(3) === 0 ? { head: history.head } : {}),
      ...(random(5) === 0 ? { keys: [history.keys[0]?.fingerprint ?? ''] } : {}),
      ...(random(5) === 0 ? { since: '2026-12-01' } : {}),
    };
  });
  const results = await checkTwice(jobs);
  const differ = results.filter(({ answers: [one, other] }) => one?.exit !== other?.exit);
  expect(differ.map(({ answers }) => answers.map((one) => [one?.exit, one?.lines.at(-1)]))).toEqual(
    [],
  );
  const months = (lines: readonly string[] = []) =>
    lines.filter((line) => /^\d{4}-\d\d /.test(line));
  for (const { answers } of results)
    expect(months(answers[0]?.lines)).toEqual(months(answers[1]?.lines));
  const refused = results.filter(
    ({ job, answers }) => !job.change && !job.keys && answers[0]?.exit !== 0,
  );
  expect(refused.map(({ answers }) => answers[0]?.lines.at(-1))).toEqual([]);
  for (const exit of [0, 1, 2])
    expect(results.filter(({ answers }) => answers[0]?.exit === exit).length).toBeGreaterThan(0);
}, 900_000);

/** 24 intervals a day, and a statement for each day. */
function hourly(days: number): DeliveryHistory {
  const history = new DeliveryHistory();
  for (let day = 0; day < days; day += 1) {
    for (let hour = 0; hour < 24; hour += 1) history.deliver(1);
    history.state();
  }
  return history;
}

test('a statement takes one check of a signature, a manifest none', async () => {
  const [result] = await checkTwice([{ base: hourly(3).objects, deep: true }]);
  // Three statements and a key.
  const right = expect.objectContaining({ exit: 0, signatures: 3 + 1 });
  expect(result?.answers).toEqual([right, right]);
});

atNight(
  'a year takes at most twice as long for each statement as a quarter',
  async () => {
    const secondsOf = async (history: DeliveryHistory) => {
      const [result] = await checkTwice([{ base: history.objects, head: history.head }]);
      expect(result?.answers.map((answer) => answer?.exit)).toEqual([0, 0]);
      return result?.answers.map((answer) => answer?.cpuSeconds ?? 0) ?? [];
    };
    const [quarter, year] = [hourly(91), hourly(365)];
    await secondsOf(quarter);
    const short = await secondsOf(quarter);
    for (const [index, long] of (await secondsOf(year)).entries()) {
      expect(long / (short[index] ?? 0)).toBeLessThan(8);
    }
  },
  900_000,
);
