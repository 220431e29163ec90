import { expect, test } from 'vitest';
import { prepareCommit } from '../../../src/rows/pipeline/commit.ts';
import type { CommitIntent } from '../../../src/foundation/domain/receipt.ts';
import { firstJob } from '../../support/interval-bench.ts';

const job = firstJob();

/** What a run with so many files is about to commit. */
function intentOf(files: number): CommitIntent {
  const file = { generation: 1, rows: 1, bytes: 1, sha256: '0'.repeat(64) };
  return {
    generation: 1,
    era: job.era,
    totalRows: files,
    rows: files,
    rejectedRows: 0,
    droppedRows: 0,
    bytes: files,
    files: Array.from({ length: files }, (_, index) => ({ key: `p/file-${index}`, ...file })),
    rejectedFiles: [],
    manifestKey: 'p/a_manifest.json',
    recipe: { format: 'JSONLines', compression: null, ...job.request },
    snapshot: '1:1:',
    settled: true,
    pending: [],
    keyDigest: null,
    keyCount: files,
    deliveredDigest: null,
    madeFiles: files,
  };
}

test('a manifest that is too long to be read back is refused before the commit', () => {
  const commit = () => prepareCommit(job, intentOf(200_000), []);
  expect(commit).toThrow(/200000 files would be longer than 16 MiB; raise max_file_size_mb/);
});

test('a manifest of 50,000 files is not too long', () => {
  expect(prepareCommit(job, intentOf(50_000), []).begunManifests).toHaveLength(1);
});
