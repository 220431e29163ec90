import type { Destination } from '../destinations/destination.ts';
import { SluiceError, toSluiceError } from '../domain/errors.ts';
import { hit } from '../domain/failpoints.ts';
import { manifestKey } from '../domain/object-keys.ts';
import type { Recipe } from '../domain/recipe.ts';
import type { Source, SourceSnapshot } from '../sources/source.ts';
import {
  type FoundManifest,
  findAdoptable,
  keysOfIntent,
  putInForce,
  readManifest,
  removeStaleFiles,
} from './commit.ts';
import { FileSet } from './file-set.ts';
import type { CommitIntent, IntervalJob, IntervalResult, RunPorts } from './interval-job.ts';

/**
 * Exports one interval: rows of one snapshot into files, then the manifest that puts them in force.
 * Until the commit nothing is readable; after a failure nothing is left behind but what the journal
 * knows. May be run again for the same interval to the same effect.
 *
 * @throws SluiceError, and whatever `signal` is aborted with
 */
export async function exportInterval(
  job: IntervalJob,
  source: Source,
  destination: Destination,
  ports: RunPorts,
  signal: AbortSignal,
): Promise<IntervalResult> {
  const found = await readManifest(destination, job);
  const result =
    findAdoptable(job, found) ??
    (await copyInterval(job, source, destination, ports, found, signal));
  await removeStaleFiles(destination, job, result, found);
  return result;
}

async function copyInterval(
  job: IntervalJob,
  source: Source,
  destination: Destination,
  ports: RunPorts,
  found: FoundManifest,
  signal: AbortSignal,
): Promise<IntervalResult> {
  const { settled, pending } = await source.settle(job.interval.end, signal);
  if (!settled) {
    ports.log(
      'WARNING',
      'Transactions that may still add rows to this interval did not end in time. The interval is looked at again once they have.',
    );
  }
  await ports.readingBegins();
  await hit('before_open');
  const snapshot = await source.open(job.request, signal);
  const { columns, totalCount } = snapshot;
  const files = new FileSet({ ...job, destination, journal: ports.journal, columns, signal });
  try {
    await copyRows(snapshot, files, ports, signal);
    const { files: made, rejectedFiles } = await files.finish();
    if (files.rows + files.rejectedRows !== totalCount) {
      const text = `${totalCount} rows were counted and ${files.rows + files.rejectedRows} were read`;
      throw new SluiceError('source.count_mismatch', text);
    }
    const intent: CommitIntent = {
      totalRows: totalCount,
      rows: files.rows,
      rejectedRows: files.rejectedRows,
      bytes: files.bytes,
      files: made,
      rejectedFiles,
      manifestKey: job.writesManifest ? manifestKey(job.prefix, job.interval) : null,
      recipe: recipeOf(job),
      superseded: keysOfIntent(job.intent),
      snapshot: snapshot.snapshot,
      settled,
      pending,
    };
    signal.throwIfAborted();
    await ports.confirmCommit(intent);
    return await putInForce(destination, job, files, intent, columns, found);
  } catch (error) {
    await (leavesUploads(error, signal) ? files.suspend() : files.abort());
    throw error;
  } finally {
    await snapshot.close();
  }
}

function recipeOf({ encoding, request }: IntervalJob): Recipe {
  const { format, compression } = encoding;
  const { dslQuery, includeEvents, excludeEvents } = request;
  return { format, compression, dslQuery, includeEvents, excludeEvents };
}

async function copyRows(
  snapshot: SourceSnapshot,
  files: FileSet,
  ports: RunPorts,
  signal: AbortSignal,
): Promise<void> {
  const tell = () =>
    ports.progressed({
      totalRows: snapshot.totalCount,
      rows: files.rows,
      bytes: files.bytes,
      files: files.count,
    });
  await tell();
  for (const slice of snapshot.slices) {
    for await (const block of snapshot.read(slice, signal)) {
      signal.throwIfAborted();
      await files.write(block);
    }
    await tell();
  }
}

/** What has been sent is kept where another attempt will follow. */
function leavesUploads(error: unknown, signal: AbortSignal): boolean {
  const { code, spec } = toSluiceError(signal.aborted ? signal.reason : error);
  // With the lease the uploads went to another worker; a lost upload, or a part that another
  // worker replaced, is no good to anybody.
  if (code === 'run.lease_lost') return true;
  return spec.retryable && code !== 'destination.upload_lost' && code !== 'destination.conflict';
}
