import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect, vi } from 'vitest';
import { check, type Place } from '../../client/check/sluice-check.mjs';

export type Bucket = ReadonlyMap<string, Buffer>;
export interface Answer {
  readonly exit: number;
  readonly lines: readonly string[];
  readonly cpuSeconds: number;
  /** Signatures that were verified. */
  readonly signatures: number;
}
export interface Job {
  /** The bucket from here on. */
  readonly base?: Bucket;
  /** Changes of it for this check alone: null removes an object. */
  readonly change?: ReadonlyMap<string, Buffer | null>;
  readonly deep?: boolean;
  readonly since?: string;
  readonly keys?: readonly string[];
  readonly head?: { readonly number: number; readonly sha256: string } | null;
}

/** Checks a bucket in memory, as the command line checks a folder. */
export async function checkInJavaScript(jobs: Iterable<Job>): Promise<Answer[]> {
  const answers: Answer[] = [];
  const verify = vi.spyOn(crypto.subtle, 'verify');
  let base: Bucket = new Map();
  for (const job of jobs) {
    base = job.base ?? base;
    const objects = new Map(base);
    for (const [key, bytes] of job.change ?? []) {
      objects.delete(key);
      if (bytes) objects.set(key, bytes);
    }
    verify.mockClear();
    const began = process.cpuUsage();
    const answer = await check(placeOf(below(objects, placeIn(base))), optionsOf(job));
    const { user, system } = process.cpuUsage(began);
    const signatures = verify.mock.calls.length;
    answers.push({ ...answer, cpuSeconds: (user + system) / 1e6, signatures });
  }
  return answers;
}

const placeOf = (objects: Bucket): Place => ({
  names: [...objects.keys()],
  open: (path) => {
    const bytes = objects.get(path);
    if (!bytes) return null;
    // The stream of a Blob takes half as long again.
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        if (bytes.length > 0) controller.enqueue(bytes);
        controller.close();
      },
    });
    return { size: bytes.length, body };
  },
});

/** The place of the export in a bucket, with its slash. */
const placeIn = (bucket: Bucket) =>
  [...bucket.keys()].find((key) => key.endsWith('_sluice/keys.json'))?.slice(0, -17) ?? '';

const below = <T>(objects: ReadonlyMap<string, T>, place: string) =>
  new Map(
    [...objects].flatMap(([key, bytes]) =>
      key.startsWith(place) ? [[key.slice(place.length), bytes] as const] : [],
    ),
  );

const optionsOf = ({ deep = false, since = '', keys = [], head }: Job) => ({
  ...{ deep, since, keys },
  ...(head && { head: `${head.number}:${head.sha256}` }),
});

/** Runs all jobs in one process of Python. */
export async function checkInPython(jobs: Iterable<Job>): Promise<Answer[]> {
  const python = spawn('python3', [path.join(import.meta.dirname, 'check_many.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const answers: Answer[] = [];
  const read = (async () => {
    for await (const line of createInterface({ input: python.stdout })) {
      const [exit, lines, cpuSeconds, signatures] = JSON.parse(line);
      answers.push({ exit, lines, cpuSeconds, signatures });
    }
  })();
  let place = '';
  for (const job of jobs) {
    const { base, change } = job;
    place = base ? placeIn(base) : place;
    const text = JSON.stringify({
      ...(base ? { base: inText(below(base, place)) } : {}),
      ...(change ? { change: inText(below(change, place)) } : {}),
      options: optionsOf(job),
    });
    if (!python.stdin.write(`${text}\n`))
      await new Promise<void>((resolve) => python.stdin.once('drain', resolve));
  }
  python.stdin.end();
  await read;
  return answers;
}

const inText = (objects: ReadonlyMap<string, Buffer | null>) =>
  Object.fromEntries([...objects].map(([key, bytes]) => [key, bytes?.toString('base64') ?? null]));

export const hasPython = spawnSync('python3', ['--version']).status === 0;

/** Both answers to each job, in order. Without Python the second is the first. */
export async function checkTwice(jobs: readonly Job[]) {
  const one = checkInJavaScript(jobs);
  const [javaScript, python] = await Promise.all([one, hasPython ? checkInPython(jobs) : one]);
  return jobs.map((job, index) => ({ job, answers: [javaScript[index], python[index]] as const }));
}

export type Attack = Job & { readonly name: string; readonly reason?: RegExp };

export const jobOf = (
  made: { readonly objects: Bucket },
  ...changes: ReadonlyMap<string, Buffer | null>[]
): Attack[] =>
  changes.map((change, index) => ({ name: `change ${index + 1}`, base: made.objects, change }));

/** Both checkers find each attack. */
export async function expectFound(attacks: readonly Attack[], reason = /^WRONG: [^\n]{10,}$/) {
  const results = await checkTwice(attacks.map((attack) => ({ ...attack, deep: true })));
  const missed = results.flatMap(({ answers }, index) => {
    const isFound = answers.every(
      (one) => one?.exit === 1 && (attacks[index]?.reason ?? reason).test(one.lines.at(-1) ?? ''),
    );
    return isFound
      ? []
      : [[attacks[index]?.name, ...answers.map((one) => [one?.exit, one?.lines.at(-1)])]];
  });
  expect(missed).toEqual([]);
  expect(results.length).toBe(attacks.length);
}
