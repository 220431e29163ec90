import { Type } from 'typebox';
import { expect, it } from 'vitest';
import { destinationRules } from '../../../src/service/api/batch-exports/destination-rules.ts';
import { defineDestination } from '../../../src/rows/destinations/define-destination.ts';
import { openFileDestination } from '../../../src/rows/destinations/file/destination.ts';
import { ownDefinitions } from '../../../src/rows/destinations/index.ts';
import { readFileSettings } from '../../../src/foundation/domain/file-settings.ts';
import { manifestKey } from '../../../src/foundation/domain/object-keys.ts';
import type { EncoderDefinition } from '../../../src/rows/encoders/encoder.ts';
import { encoders, jsonLines } from '../../../src/rows/encoders/index.ts';
import { joinConnectors, joinRegistry, readRowsBy } from '../../../src/main/connectors.ts';
import { decodeManifest } from '../../../src/rows/pipeline/manifest.ts';
import { contextWith, owner, readAll } from '../../conformance/destination-suite.ts';
import { attempt, firstJob, openIntervalBench } from '../../support/interval-bench.ts';
import { testSecrets } from '../../support/test-secrets.ts';
import { useStage } from '../../support/use-stage.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const mebibyte = 1024 ** 2;
const rows = 12;

/** JSON Lines with every byte inverted: what it says of itself is all that the rest knows. */
const toyEncoder: EncoderDefinition = {
  format: 'Toy',
  extension: 'toy',
  contentType: 'application/toy',
  compressions: { inverted: { suffix: '.inv', memoryBytes: 3 * mebibyte } },
  memoryBytes: 5 * mebibyte,
  open(columns, compression) {
    const inner = jsonLines.open(columns, null);
    const pack = (chunks: readonly Uint8Array[]) =>
      compression === null ? chunks : chunks.map((chunk) => chunk.map((byte) => byte ^ 0xff));
    return {
      get heldBytes() {
        return inner.heldBytes;
      },
      write: async (block) => pack(await inner.write(block)),
      finish: async () => pack(await inner.finish()),
    };
  },
  async *read(path) {
    yield [`read from ${path}`];
  },
  without: (path, isDropped) => jsonLines.without(path, isDropped, null),
};

/** A shelf is a folder below the root. */
const toyDestination = defineDestination({
  type: 'Toy',
  description: 'A shelf.',
  properties: {
    shelf: Type.String({ description: 'Which one.' }),
    label: Type.Optional(Type.String({ description: 'What is on it.', default: 'files' })),
    key: Type.Optional(Type.String({ description: 'Of the lock.', writeOnly: true })),
  },
  keepsFiles: true,
  buffersParts: true,
  validate: ({ shelf, label }) =>
    shelf === 'top'
      ? [{ attr: 'shelf', code: 'invalid_input', detail: `${label} are out of reach.` }]
      : [],
  place: ({ shelf, label }) => `${shelf} ${label}`,
  open: ({ shelf, label }, _files, { fileDestinationRoot, partBytes }) =>
    openFileDestination(fileDestinationRoot ?? '', [shelf, label], partBytes),
});

const registry = joinRegistry([...encoders, toyEncoder], [...ownDefinitions, toyDestination]);
const root = folderOfTests();
const bench = useStage(() => openIntervalBench(rows));

const context = () =>
  contextWith({ fileDestinationRoot: root, partBytes: 8 * mebibyte, partsInFlight: 2 });
const connectors = () => joinConnectors(() => bench.source, context(), testSecrets(), registry);

const config = { shelf: 'low', file_format: 'Toy', compression: 'inverted', prefix: 'p' };

it('are validated by what they say, at every destination and in every format', () => {
  const rules = destinationRules(registry.destinations, context());
  const problemsOf = (type: string, changes: object) =>
    rules.checkDestination(type, { ...config, ...changes }).problems.map(({ attr }) => attr);
  expect(rules.checkDestination('Toy', config)).toEqual({
    problems: [],
    config: {
      ...config,
      label: 'files',
      file_name: '{start}-{end}.{generation}-{part}',
      max_file_size_mb: null,
      partition_by: null,
      manifest: true,
      csv_formula_guard: false,
      decimal_columns: null,
      table_format: null,
      snapshot_retention_days: null,
      infinity: 'reject',
      csv_arrays: 'json',
      csv_delimiter: 'comma',
      csv_null: 'empty',
      csv_bom: false,
      csv_header: true,
      time_as: 'micros',
      json_null: 'keep',
      replace_invalid_unicode: false,
      on_rejected: 'warn',
      include_events: null,
      exclude_events: null,
    },
  });
  expect(problemsOf('Toy', { shelf: 'top' })).toEqual(['destination__config__shelf']);
  expect(problemsOf('Toy', { compression: 'gzip' })).toEqual(['destination__config__compression']);
  expect(problemsOf('Toy', { file_format: 'CSV' })).toEqual(['destination__config__compression']);
  // No format that could be meant has this compression.
  expect(problemsOf('Toy', { file_format: 'Nope' })).toEqual([
    'destination__config__file_format',
    'destination__config__compression',
  ]);
  const noOp = { file_format: 'Toy', compression: 'inverted' };
  expect(rules.checkDestination('NoOp', noOp).problems).toEqual([]);
  expect(rules.secretProperties('Toy')).toEqual(['key']);
  expect(rules.placeOf('Toy', { shelf: 'low' })).toBe('low files');
});

it('are counted in the memory of a run by what they say', () => {
  const { memoryOf } = connectors();
  const files = readFileSettings(config);
  const [source, encoder, packing, parts] = [8, 5, 3, 3 * 8];
  expect(memoryOf('Toy', files) / mebibyte).toBe(source + encoder + packing + parts);
  expect(memoryOf('NoOp', files) / mebibyte).toBe(source + encoder + packing);
  expect(memoryOf('Toy', readFileSettings({ file_format: 'Toy' })) / mebibyte).toBe(
    source + encoder + parts,
  );
});

it('export an interval, under the extension of the encoder', async () => {
  const { encodingOf, openDestination } = connectors();
  const job = firstJob({ encoding: encodingOf(readFileSettings(config)) });
  const destination = openDestination({
    ...owner,
    exportId: job.exportId,
    destination: { type: 'Toy', config, secrets: null },
  });
  const { result } = await attempt(bench, destination, job).exported;
  expect(result.recipe).toMatchObject({ format: 'Toy', compression: 'inverted' });
  const key = manifestKey(job.names);
  const manifest = await decodeManifest((await readAll(destination, key)) ?? Buffer.alloc(0));
  expect(manifest).toMatchObject({ format: 'Toy', compression: 'inverted', total_rows: rows });
  const [file] = manifest?.files ?? [];
  expect(file?.key).toMatch(/Z\.toy\.inv$/);
  const bytes = (await readAll(destination, file?.key ?? '')) ?? Buffer.alloc(0);
  const lines = Buffer.from(bytes.map((byte) => byte ^ 0xff))
    .toString()
    .split('\n');
  expect(lines.slice(0, -1).map((line) => typeof JSON.parse(line))).toHaveLength(rows);
  await destination.close();
});

it('are read back by verify with the reader of the encoder', async () => {
  const made = { format: 'Toy', compression: 'inverted' };
  const found = [];
  for await (const row of readRowsBy(registry)('a file', made, [])) found.push(row);
  expect(found).toEqual([['read from a file']]);
});
