import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { canonicalBytes } from '../../../src/foundation/domain/canonical-json.ts';
import {
  isSignedBy,
  makeSigningKey,
  signWith,
} from '../../../src/foundation/security/signing-keys.ts';
import { digestOfBytes } from '../../../src/rows/pipeline/manifest.ts';
import { readAll } from '../../conformance/destination-suite.ts';
import {
  attempt,
  firstJob,
  type IntervalBench,
  jobAfter,
  manifestPath,
  type OpenedDestination,
  openedBy,
  openIntervalBench,
} from '../../support/interval-bench.ts';

let bench: IntervalBench;
let opened: OpenedDestination;

beforeAll(async () => {
  bench = await openIntervalBench(20);
});
afterAll(() => bench?.drop());
beforeEach(async () => {
  opened = await openedBy.S3();
});
afterEach(() => opened?.close());

const [before, after] = [makeSigningKey(null, 'then'), makeSigningKey(null, 'now')];
const job = firstJob({ sign: signWith(before.key) });
const rotated = { sign: signWith(after.key) };

it('a run with the same rows leaves the manifest, whichever key signs by now', async () => {
  const { destination } = opened;
  const first = await attempt(bench, destination, job).exported;
  const bytes = (await readAll(destination, manifestPath)) ?? Buffer.alloc(0);
  expect(first.result.manifestSha256).toBe(digestOfBytes(bytes));
  const { receipt, ...rest } = JSON.parse(String(bytes));
  expect(isSignedBy(before.entry.public_key, canonicalBytes(rest), receipt.signature)).toBe(true);
  const again = await attempt(bench, destination, jobAfter(job, first, rotated)).exported;
  expect(again.result).toMatchObject({ generation: 1, manifestSha256: digestOfBytes(bytes) });
  expect(await readAll(destination, manifestPath)).toEqual(bytes);
});

it('an attempt after a crash adopts the manifest that the former key signed', async () => {
  const { destination } = opened;
  const made = attempt(bench, destination, job);
  const { result } = await made.exported;
  const next = { ...job, ...rotated, attempt: 2, generation: 2, intent: made.intent };
  const adopted = await attempt(bench, destination, next).exported;
  expect(adopted.result).toMatchObject({ generation: 1, manifestSha256: result.manifestSha256 });
});
