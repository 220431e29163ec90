import { expect, test } from 'vitest';
import { type Bucket, checkTwice, type Job } from '../../support/both-checkers.ts';
import { DeliveryHistory } from '../../support/delivery-history.ts';
import { isNightly } from '../../support/nightly.ts';

/** Two statements, a supplement and two keys. The last interval is newer than the statements. */
function smallHistory(): DeliveryHistory {
  const history = new DeliveryHistory();
  const first = history.deliver(2);
  history.state();
  history.addKey('next');
  history.supplement(first, 1);
  history.state();
  history.deliver(1);
  return history;
}

/** Another character of another class, or another byte. */
function otherClass(byte: number): number {
  const character = String.fromCharCode(byte);
  if (/\d/.test(character)) return 'a'.charCodeAt(0);
  if (/[a-z]/.test(character)) return '0'.charCodeAt(0);
  if (/[A-Z]/.test(character)) return character.toLowerCase().charCodeAt(0);
  return byte === 0x20 ? 0x09 : 0x20;
}

const named = (exit: number | undefined, lines: readonly string[] = []) => [
  exit,
  ...lines.slice(-1),
];

async function expectAllFound(history: DeliveryHistory, changes: readonly Job['change'][]) {
  const jobs = changes.map((change, index) => ({
    ...(index === 0 ? { base: history.objects } : {}),
    ...(change ? { change } : {}),
    deep: true,
    head: history.head,
  }));
  const missed = (await checkTwice(jobs)).filter(({ answers }) =>
    answers.some((one) => one?.exit !== 1),
  );
  expect(
    missed.map(({ job, answers }) => [
      [...(job.change ?? [])].map(([key, bytes]) => [key, bytes?.toString() ?? null]),
      ...answers.map((answer) => named(answer?.exit, answer?.lines)),
    ]),
  ).toEqual([]);
  expect(jobs.length).toBeGreaterThan(0);
}

test('both find the history right', async () => {
  const history = smallHistory();
  const [one] = await checkTwice([{ base: history.objects, deep: true, head: history.head }]);
  expect(one?.answers.map((answer) => answer?.exit)).toEqual([0, 0]);
  expect(one?.answers[0]?.lines[0]).toBe(
    '2026-11 intervals 1 delivered 1 empty 0 accepted 0 open 0 rows 3 bytes 69',
  );
  expect(one?.answers[1]?.lines[0]).toBe(one?.answers[0]?.lines[0]);
});

test('both find each changed byte of each object', async () => {
  const history = smallHistory();
  const changes: Map<string, Buffer>[] = [];
  for (const [key, bytes] of history.objects) {
    for (const [at, byte] of bytes.entries()) {
      const others = [byte ^ (1 << (at % 8)), otherClass(byte)];
      // At night each byte is changed in both ways; by day every sixteenth one, in one of them.
      const byDay = at % 16 === 0 ? others.slice((at / 16) % 2).slice(0, 1) : [];
      for (const other of isNightly ? others : byDay) {
        const changed = Buffer.from(bytes);
        changed[at] = other;
        changes.push(new Map([[key, changed]]));
      }
    }
  }
  await expectAllFound(history, changes);
}, 900_000);

test('both find each object that is dropped, doubled, swapped or cut', async () => {
  const history = smallHistory();
  await expectAllFound(history, [
    ...dropped(history.objects),
    ...doubled(history.objects),
    ...swapped(history.objects),
    ...cut(history.objects),
  ]);
});

/** The newest manifests have no statement yet, so their absence cannot show. */
function* dropped(objects: Bucket) {
  for (const key of objects.keys())
    if (!isNewest(key) || !key.endsWith('_manifest.json')) yield new Map([[key, null]]);
}
const isNewest = (key: string) => key.includes('20261130T010000Z-');

function* doubled(objects: Bucket) {
  for (const [key, bytes] of objects) {
    if (!key.includes('_sluice/')) yield new Map([[key.replace('Z-', 'Z-copy-'), bytes]]);
    else if (key.includes('/statements/')) {
      for (const number of [3, 4])
        yield new Map([[`events/_sluice/statements/${number}.json`, bytes]]);
    }
  }
}

function* swapped(objects: Bucket) {
  const all = [...objects];
  for (const [at, [key, bytes]] of all.entries())
    for (const [other, otherBytes] of all.slice(at + 1))
      if (!bytes.equals(otherBytes))
        yield new Map([
          [key, otherBytes],
          [other, bytes],
        ]);
}

function* cut(objects: Bucket) {
  for (const [key, bytes] of objects)
    for (const length of [0, 1, Math.floor(bytes.length / 2), bytes.length - 1])
      yield new Map([[key, bytes.subarray(0, length)]]);
}
