import { expect, it } from 'vitest';
import type { IntervalResult } from '../../src/foundation/domain/receipt.ts';
import { replacedBy } from '../../src/rows/pipeline/leftovers.ts';
import { decodeManifest } from '../../src/rows/pipeline/manifest.ts';
import { firstJob } from '../support/interval-bench.ts';

/** Manifests that a hostile store shows as if they were ours. */

const job = firstJob();
const manifestKey = 'p/a_manifest.json';
const result = { files: [], rejectedFiles: [], manifestKey } as unknown as IntervalResult;

const manifestOf = (content: object) =>
  decodeManifest(
    Buffer.from(
      JSON.stringify({
        ...{ batch_export_id: job.exportId, run_id: job.runId, generation: 1, era: job.era },
        ...{ rejected_files: [], ...content },
      }),
    ),
  );

it.each([
  ['is no list', { files: {} }],
  ['has an entry that is null', { files: [null] }],
  ['has a key that is no text', { files: [{ key: 7 }] }],
  ['has rejected files without a key', { files: [], rejected_files: [{}] }],
  ['has a key with half a character', { files: [{ key: 'p/\ud83d' }] }],
  ['has a key with a NUL', { files: [{ key: 'p/\0' }] }],
  ['is beside a run with a NUL', { files: [], run_id: '\0' }],
  ['is beside an era that is no text', { files: [], era: {} }],
])('a manifest whose list of files %s is not ours', async (_, content) => {
  expect(await manifestOf(content)).toBeNull();
});

it('a manifest with more files than a commit has adds at most 10,000 to our record', async () => {
  const files = Array.from({ length: 20_000 }, (_, index) => ({ key: `p/a.v1-${index}` }));
  const found = { manifest: await manifestOf({ files }), etag: '"tag"' };
  expect(replacedBy(job, result, found)).toHaveLength(10_000);
});

it('a manifest with a key that no store has does not add it to our record', async () => {
  const files = [{ key: `p/a.${'x'.repeat(2_000)}` }, { key: 'p/a.v1.jsonl' }];
  const found = { manifest: await manifestOf({ files }), etag: '"tag"' };
  expect(replacedBy(job, result, found).map(({ key }) => key)).toEqual(['p/a.v1.jsonl']);
});
