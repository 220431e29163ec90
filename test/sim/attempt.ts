/** An attempt, step by step, between the real store and a bucket with conditional puts. */

import { SluiceError } from '../../src/domain/errors.ts';
import type { DataInterval } from '../../src/domain/time.ts';
import type { ClaimedRun } from '../../src/store/claims.ts';
import type { Context } from '../../src/use-cases/context.ts';
import { recordFault } from '../../src/use-cases/runs/finish-run.ts';
import { recordManifest } from '../support/record-manifest.ts';
import { beginCommit } from '../support/run-verbs.ts';

export interface Manifest {
  readonly etag: number;
  readonly runId: string;
  /** Which state of the source its rows are from. */
  readonly snapshot: number;
}

export interface Bucket {
  readonly manifests: Map<string, Manifest>;
  lastEtag: number;
  /** Puts heed no condition: a bug that the simulator must find. */
  readonly isUnconditional: boolean;
}

export interface Attempt {
  readonly run: ClaimedRun;
  readonly step: 'read' | 'begin' | 'put' | 'record';
  readonly snapshot: number;
  /** What the put expects to replace. */
  readonly found: Manifest | null;
  readonly committed: Manifest | null;
}

export function begun(run: ClaimedRun): Attempt {
  return { run, step: 'read', snapshot: 0, found: null, committed: null };
}

export function keyOf(exportId: string, { start, end }: DataInterval): string {
  return `${exportId}/${start}-${end}`;
}

export function keyOfRun({ exportId, interval }: ClaimedRun): string {
  return keyOf(exportId, interval);
}

function fileKeyOf(run: ClaimedRun): string {
  return `${keyOfRun(run)}.v${run.fileGeneration}`;
}

/** @returns the attempt at its next step, or null once it is over */
export async function takeStep(
  context: Context,
  bucket: Bucket,
  sourceVersion: number,
  attempt: Attempt,
): Promise<Attempt | null> {
  const { run } = attempt;
  const key = keyOfRun(run);
  switch (attempt.step) {
    case 'read': {
      const found = bucket.manifests.get(key) ?? null;
      const intent = run.commitIntent as { readonly snapshot?: number } | null;
      const isOwn = found?.runId === run.runId && found.snapshot === intent?.snapshot;
      if (isOwn) return { ...attempt, step: 'record', snapshot: found.snapshot, committed: found };
      return { ...attempt, step: 'begin', snapshot: sourceVersion, found };
    }
    case 'begin': {
      const intent = { snapshot: attempt.snapshot };
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

async function put(
  context: Context,
  bucket: Bucket,
  attempt: Attempt,
  key: string,
): Promise<Attempt | null> {
  const there = bucket.manifests.get(key)?.etag ?? null;
  if (there !== (attempt.found?.etag ?? null) && !bucket.isUnconditional) {
    await recordFault(context, attempt.run, new SluiceError('destination.conflict'), 0.5);
    return null;
  }
  bucket.lastEtag += 1;
  const { snapshot } = attempt;
  const committed = { etag: bucket.lastEtag, runId: attempt.run.runId, snapshot };
  bucket.manifests.set(key, committed);
  return { ...attempt, step: 'record', committed };
}

/** The snapshot stands for the rows: their number is the version of the source. */
async function record(context: Context, { run, committed, snapshot }: Attempt): Promise<void> {
  if (committed === null) throw new Error('nothing was put');
  await recordManifest(context, run, {
    manifestKey: keyOfRun(run),
    manifestEtag: String(committed.etag),
    rows: snapshot,
  });
}
