/**
 * Each document that somebody else may have written: what may be made of it has a bound, and others run while it is
 * read. A file of src that reads one has a row here, so a new reader cannot be forgotten.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readShortXml, readXml } from '../../src/rows/destinations/s3/xml.ts';
import { parseForeignJson } from '../../src/foundation/domain/foreign-json.ts';
import { decodeManifest } from '../../src/rows/pipeline/manifest.ts';
import { ReadingBudget } from '../../src/extensions/iceberg/avro.ts';
import { decodeManifestFile, decodeManifestList } from '../../src/extensions/iceberg/manifests.ts';
import { decodeMetadata } from '../../src/extensions/iceberg/metadata.ts';
import { countLoopTurns } from '../support/loop-turns.ts';
import { entry, listOf, long, sync } from '../support/packed-list.ts';

const mebibyte = 1024 ** 2;

/** What a file of src reads with a parser or a decompressor, and what bounds it. */
const readers: Readonly<Record<string, string>> = {
  'rows/destinations/s3/answer.ts': 'answers of stores: bytes here, elements in xml.ts',
  'rows/destinations/s3/error-answer.ts': 'error documents of stores: 64 KiB, elements in xml.ts',
  'rows/destinations/s3/xml.ts': 'XML of stores: tested below',
  'foundation/domain/foreign-json.ts': 'JSON of others: tested below',
  'rows/pipeline/manifest.ts': 'manifests in buckets: tested below',
  'service/worker/put-statements.ts': 'statements in buckets: 16 MiB, foreign-json.ts',
  'extensions/iceberg/avro.ts': 'manifests and lists of Iceberg tables: tested below',
  'extensions/iceberg/metadata.ts': 'metadata of Iceberg tables: tested below',
  // Rows: MAX_ROW_MIB bounds their bytes.
  'rows/transforms/json.ts': 'JSON of rows in built-in steps: test/unit/transforms/hostile-rows',
  'foundation/domain/row-block.ts': 'one JSON text of a row',
  'rows/encoders/text/json-text.ts': 'one JSON text of a row',
  'extensions/own-plugins/child/main.ts':
    'messages of our own process; a row of it in a process with limits',
  'extensions/own-plugins/sandbox.ts': 'answers of a sandbox: maxAnswerChars',
  // Files of an export: their SHA-256 is that of our record before they are unpacked.
  'rows/encoders/codecs/stream-compressions.ts': 'unpacked as a stream',
  'rows/encoders/codecs/zstd.ts': 'unpacked as a stream',
  'rows/encoders/jsonlines/read.ts': 'one row of a file',
  'rows/encoders/parquet/page-compressor.ts': 'compresses only',
  'rows/encoders/parquet/column-cursor.ts': 'pages of a file whose SHA-256 is ours',
  'rows/encoders/parquet/definition.ts': 'names compressions only',
  'rows/encoders/parquet/without-rows.ts': 'a row group of a file whose SHA-256 is ours',
  'rows/encoders/parquet/read.ts': 'a row group of a file',
  'state/store/intervals/statements.ts': 'statements of our own',
  'rows/sources/postgres/sequence-point.ts': 'the answer to a statement of our own',
  'service/use-cases/statements/make-documents.ts': 'statements of our own',
  // Requests: 1 MiB.
  'service/api/hooks/idempotency.ts': 'answers of our own',
  'service/api/hooks/answers.ts': 'compresses only',
  'service/api/hooks/bodies.ts': 'bodies of requests: api/validation/hostile-json.ts',
  'service/api/lists.ts': 'cursors: part of an address',
  'service/api/transformations/input.ts': 'a config: api/validation/hostile-json.ts',
  'service/api/validation/hostile-json.ts': 'bodies of requests',
  'foundation/domain/plugin.ts': 'a setting of at most 64 KiB',
  // The operator's and our own.
  'foundation/config/models-file.ts': 'a file of the operator',
  'state/embedded-postgres/binaries.ts': 'a file of a package',
  'state/embedded-postgres/data-directory.ts': 'a file of our own',
  'foundation/security/secret-box.ts': 'what we encrypted',
};

/** They talk to the operator's own service, or are its page. */
const clients = /^clients\/(?:cli|console|quickstart)\//;

const parsing =
  /JSON\.parse\(|parseForeignJson\(|[iI]nflate|[gG]unzip|[dD]ecompress|from 'sax'|import\('hyparquet|brotli|collectBody\(|from 'yaml'/;

it('the list of readers names every file of src that parses or unpacks', () => {
  const found = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.tsx?$/.test(file))
    .filter((file) => !clients.test(file))
    .filter((file) => parsing.test(withoutComments(readFileSync(`src/${file}`, 'utf8'))));
  expect(found.toSorted()).toEqual(Object.keys(readers).toSorted());
});

function withoutComments(source: string): string {
  return source.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
}

const budget = () => new ReadingBudget(64 * mebibyte, 100_000);

/** Reads a document, and how many turns others had meanwhile, and what the heap grew by at most. */
async function watch<T>(read: () => Promise<T>) {
  const loop = countLoopTurns();
  const before = process.memoryUsage();
  let highest = 0;
  const looking = setInterval(() => {
    const { heapUsed, external } = process.memoryUsage();
    highest = Math.max(highest, heapUsed + external);
  }, 5);
  const result = await read().then(
    (value) => ({ value, error: null }),
    (error: unknown) => ({ value: null, error: error as Error }),
  );
  clearInterval(looking);
  loop.stop();
  const grown = Math.max(0, highest - before.heapUsed - before.external);
  return { ...result, turns: loop.turns(), grownMib: grown / mebibyte };
}

describe('a manifest list of Iceberg', () => {
  it('that unpacks a thousandfold ends at the budget, and others run meanwhile', async () => {
    const block = { count: 1, bytes: entry('a'.repeat(4 * mebibyte - 1_024)) };
    const one = listOf(block);
    const packed = one.subarray(listOf().length);
    const bytes = Buffer.concat([one, ...Array.from({ length: 1_500 }, () => packed)]);
    const { error, turns, grownMib } = await watch(() => decodeManifestList(bytes, budget()));
    expect(error?.message).toBe('more bytes than one reading may unpack');
    expect(turns).toBeGreaterThan(10);
    expect(grownMib).toBeLessThan(400);
  });

  it('has one budget with the manifests that are read after it', async () => {
    const bytes = listOf({ count: 1, bytes: entry('a'.repeat(mebibyte)) });
    const shared = new ReadingBudget(2.5 * mebibyte, 100);
    await decodeManifestList(bytes, shared);
    await decodeManifestList(bytes, shared);
    await expect(decodeManifestList(bytes, shared)).rejects.toThrow('more bytes');
  });

  it.each([
    ['rows', listOf({ count: 200_000, bytes: Buffer.alloc(16) }), 'too many rows'],
    ['blocks', listOf(...Array(3_000).fill({ count: 1, bytes: entry('a') })), 'too many blocks'],
    ['no rows', listOf({ count: 0, bytes: Buffer.alloc(0) }), 'a block without rows'],
    [
      'a number without end',
      Buffer.concat([listOf(), Buffer.alloc(1_000, 0x80)]),
      'a number is too large',
    ],
    [
      'names without end',
      Buffer.concat([Buffer.from('Obj\u0001'), long(1_000_000), Buffer.alloc(mebibyte)]),
      'too much metadata',
    ],
    ['another schema', Buffer.concat([Buffer.from('Obj\u0001'), long(0), sync]), 'another schema'],
  ])('with %s is refused', async (_, bytes, message) => {
    await expect(decodeManifestList(bytes, budget())).rejects.toThrow(message);
    await expect(decodeManifestFile(bytes, budget())).rejects.toThrow(RangeError);
  });

  it('of a size that Sluice writes is read in slices', async () => {
    const rows = Array.from({ length: 20_000 }, (_, n) => entry(`s3://b/metadata/m_${n}.avro`));
    const bytes = listOf({ count: rows.length, bytes: Buffer.concat(rows) });
    const { value, turns } = await watch(() => decodeManifestList(bytes, budget()));
    expect(value).toHaveLength(rows.length);
    expect(turns).toBeGreaterThan(5);
  });
});

/** JSON that could become more things than anything of ours has. */
const hostileJson: readonly (readonly [string, () => string])[] = [
  [
    'names',
    () => `{${Array.from({ length: 400_000 }, (_, n) => `"${n.toString(36)}":1`).join(',')}}`,
  ],
  ['objects', () => `[${'{},'.repeat(400_000)}1]`],
  ['lists', () => `[${'[],'.repeat(400_000)}1]`],
  ['values', () => `[${'1,'.repeat(400_000)}1]`],
  ['levels', () => '['.repeat(400_000)],
];

describe('JSON with too many', () => {
  it.each(hostileJson)('%s is refused before a value is made of it', async (_, make) => {
    const bytes = Buffer.from(make());
    const bounds = { values: 300_000, names: 1_000, depth: 16 };
    await expect(parseForeignJson(bytes, bounds)).rejects.toBeInstanceOf(RangeError);
    const inside = (name: string) => Buffer.from(`{"${name}":${bytes.toString()}}`);
    expect(await decodeManifest(inside('files'))).toBeNull();
    expect(await decodeMetadata(inside('snapshots'))).toBeNull();
  });

  it('quotes and backslashes in texts are no values', async () => {
    const value = { a: '[{"\\', 'b\\"': '\\\\",{[[', c: ['"', '\\"'] };
    const bounds = { values: 8, names: 3, depth: 2 };
    expect(await parseForeignJson(Buffer.from(JSON.stringify(value)), bounds)).toEqual(value);
  });

  it('bytes is counted in slices', async () => {
    const bytes = Buffer.from(`[${' '.repeat(8 * mebibyte)}1]`);
    const { value, turns } = await watch(() =>
      parseForeignJson(bytes, { values: 9, names: 9, depth: 9 }),
    );
    expect(value).toEqual([1]);
    expect(turns).toBeGreaterThan(10);
  });
});

it.each([
  ['elements', `<A>${'<b/>'.repeat(200_000)}</A>`],
  ['levels', '<a>'.repeat(300_000)],
  ['entities', `<!DOCTYPE A [<!ENTITY a "${'a'.repeat(9_000)}">]><A>${'&a;'.repeat(9_000)}</A>`],
])('XML with millions of %s is refused', async (_, document) => {
  expect(await readXml(document)).toBeNull();
  expect(readShortXml(document)).toBeNull();
});
