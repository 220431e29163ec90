/** An attempt, step by step, between the real store and a bucket with conditional puts. */

import { type ErrorCode, SluiceError } from '../../src/foundation/domain/errors.ts';
import type { DataInterval } from '../../src/foundation/domain/time.ts';
import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import type { Context } from '../../src/service/use-cases/context.ts';
import { recordFault } from '../../src/service/use-cases/runs/finish-run.ts';
import { recordManifest } from '../support/record-manifest.ts';
import { beginCommit } from '../support/run-verbs.ts';
import type { Defect } from './faulty-database.ts';
import { proofOf, type Rows, rowsOf, type SimSource } from './source.ts';

export interface Manifest {
  readonly etag: number;
  readonly runId: string;
  /** Which state of the source its rows are from. */
  readonly snapshot: number;
  readonly rows: Rows;
}

export interface Bucket {
  readonly manifests: Map<string, Manifest>;
  lastEtag: number;
  /** A bug that the simulator must find. */
  readonly defect: Defect | null;
}

export interface Attempt {
  readonly run: ClaimedRun;
  readonly step: 'read' | 'begin' | 'put' | 'record';
  readonly snapshot: number;
  /** What the manifest will have. */
  readonly rows: Rows;
  readonly proof: ReturnType<typeof proofOf> | null;
  /** What the put expects to replace. */
  readonly found: Manifest | null;
  readonly committed: Manifest | null;
}

export function begun(run: ClaimedRun): Attempt {
  const nothing = { rows: [], proof: null, found: null, committed: null };
  return { run, step: 'read', snapshot: 0, ...nothing };
}

export function keyOf(exportId: string, { start, end }: DataInterval): string {
  return `${exportId}/${start}-${end}`;
}

export const keyOfRun = ({ exportId, interval }: ClaimedRun): string => keyOf(exportId, interval);

const fileKeyOf = (run: ClaimedRun): string => `${keyOfRun(run)}.v${run.fileGeneration}`;

/** @returns the attempt at its next step, or null once it is over */
export async function takeStep(
  context: Context,
  bucket: Bucket,
  source: SimSource,
  attempt: Attempt,
): Promise<Attempt | null> {
  const { run } = attempt;
  const key = keyOfRun(run);
  switch (attempt.step) {
    case 'read': {
      const found = bucket.manifests.get(key) ?? null;
      const proof = proofOf(source, key);
      const intent = run.commitIntent as Pick<Attempt, 'snapshot' | 'proof'> | null;
      if (found?.runId === run.runId && found.snapshot === intent?.snapshot) {
        // The proof is of the snapshot that was read; the source may have changed since.
        return { ...attempt, ...intent, step: 'record', rows: found.rows, committed: found };
      }
      const read = { ...attempt, snapshot: source.version, proof, found };
      const made = make(read, rowsOf(source, key), bucket.defect);
      if (typeof made === 'string') {
        await recordFault(context, run, new SluiceError(made), 0.5);
        return null;
      }
      return made;
    }
    case 'begin': {
      const intent = { snapshot: attempt.snapshot, proof: attempt.proof };
      const { leaseMs } = context.policy;
      const { fileGeneration: generation, destinationVersion } = run;
      const keys = {
        generation,
        destinationVersion,
        manifestKey: key,
        keys: [fileKeyOf(run), key],
      };
      return (await beginCommit(context.db, run, leaseMs, intent, keys))
        ? { ...attempt, step: 'put' }
        : null;
    }
    case 'put':
      return put(context, bucket, attempt, key);
    case 'record':
      await record(context, attempt);
      return null;
  }
}

/** What the attempt is to commit, or why nothing: `rows/pipeline/supplement.ts`, `rows/pipeline/missing-rows.ts`. */
function make(read: Attempt, now: Rows, defect: Defect | null): Attempt | ErrorCode {
  const { run, found } = read;
  const delivered = found?.rows ?? [];
  if (run.purpose !== 'supplement') {
    const isMissing = delivered.some((row) => !now.includes(row)) && defect !== 'drop_missing';
    if (isMissing && !run.dropsMissing) return 'source.rows_missing';
    return { ...read, step: 'begin', rows: now };
  }
  if (found === null || String(found.etag) !== run.receipt?.manifestEtag)
    return 'run.late_rows_wait';
  const late = now.filter((row) => !delivered.includes(row));
  if (late.length === 0) {
    const { snapshot } = found;
    return { ...read, step: 'record', snapshot, rows: delivered, committed: found };
  }
  return {
    ...read,
    step: 'begin',
    rows: defect === 'forget_delivered' ? late : [...delivered, ...late],
  };
}

async function put(
  context: Context,
  bucket: Bucket,
  attempt: Attempt,
  key: string,
): Promise<Attempt | null> {
  const there = bucket.manifests.get(key)?.etag ?? null;
  if (there !== (attempt.found?.etag ?? null) && bucket.defect !== 'put_unconditionally') {
    await recordFault(context, attempt.run, new SluiceError('destination.conflict'), 0.5);
    return null;
  }
  bucket.lastEtag += 1;
  const { snapshot, rows } = attempt;
  const committed = { etag: bucket.lastEtag, runId: attempt.run.runId, snapshot, rows };
  bucket.manifests.set(key, committed);
  return { ...attempt, step: 'record', committed };
}

/** The snapshot stands for the rows: their number is the version of the source. */
async function record(
  context: Context,
  { run, committed, snapshot, proof }: Attempt,
): Promise<void> {
  if (committed === null || proof === null) throw new Error('nothing was put');
  const manifestEtag = String(committed.etag);
  const put = { manifestKey: keyOfRun(run), manifestEtag, rows: snapshot };
  await recordManifest(context, run, put, proof);
}
