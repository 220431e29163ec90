import { expect, it } from 'vitest';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { digestOfSchema, type Manifest } from '../../../src/rows/pipeline/manifest.ts';
import { verifyFiles } from '../../../src/service/verify/verify-files.ts';
import type { Receipt } from '../../../src/state/store/intervals/receipts.ts';

const schema = [
  { name: 'id', type: 'bigint' },
  { name: 'name', type: 'character(6)' },
];

/** What verify says of a manifest that somebody has replaced, without files. */
async function verify(found: unknown): Promise<readonly string[]> {
  const run = { batch_export_id: 'e', run_id: 'r', era: 'era', generation: 1 };
  const manifest = { ...run, schema: found, files: [], rejected_files: [] };
  const body = async function* () {
    yield Buffer.from(JSON.stringify(manifest));
  };
  const readFile: Destination['readFile'] = async () => ({ body: body(), etag: 'any' });
  const receipt: Partial<Receipt> = {
    manifestKey: 'p/_manifest.json',
    generation: 1,
    era: 'era',
    files: [],
    rejectedFiles: [],
    recipe: {
      format: 'JSONLines',
      compression: null,
      dslQuery: null,
      includeEvents: null,
      excludeEvents: null,
      schemaDigest: digestOfSchema(schema),
    },
  };
  return verifyFiles(
    { destination: { readFile } as Destination, readRows: async function* () {} },
    receipt as Receipt,
    { format: 'JSONLines', compression: null },
    [],
    () => {},
  );
}

it.each<[string, unknown]>([
  ['lacks a column', schema.slice(1)],
  ['has another type', [schema[0], { name: 'name', type: 'text' }]],
  ['has another order', schema.toReversed()],
  ['has no columns', undefined],
  ['has a text instead', 'id'],
  ['has nulls', [null, null]],
])('verify finds a manifest whose schema %s', async (_, found) => {
  expect(await verify(found)).toEqual([
    'p/_manifest.json names other columns or types than the run recorded',
  ]);
});

it('verify accepts the schema that the run wrote', async () => {
  const written: Manifest['schema'] = schema;
  expect(await verify(written)).toEqual([]);
});
