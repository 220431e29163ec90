import { createHash } from 'node:crypto';
import type { Column } from '../../../src/foundation/domain/row-block.ts';
import type { Compression } from '../../../src/rows/encoders/encoder.ts';
import { bucket, type Installation } from '../../support/installation.ts';
import { readWithHyparquet } from '../../support/parquet-readers.ts';
import { unpack } from '../../support/unpack.ts';
import type { StormExport } from './world.ts';

/** What a reader of the bucket gets for one interval. */
export interface Delivered {
  readonly start: string;
  readonly end: string;
  /** The values of each row, by key. */
  readonly rows: readonly (readonly [key: string, values: string])[];
}

interface NamedFile {
  readonly key: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

interface Current {
  readonly start: string;
  readonly end: string;
  readonly format: string;
  readonly compression: Compression;
  readonly files: readonly NamedFile[];
}

const typesOf: Readonly<Record<StormExport['model'], readonly Column[]>> = {
  events: columns({
    uuid: 'uuid',
    event: 'text',
    distinct_id: 'text',
    properties: 'jsonb',
    inserted_at: 'timestamptz',
  }),
  moves: columns({ id: 'uuid', label: 'text', amount: 'as_json', arrived_at: 'timestamptz' }),
};

function columns(types: Readonly<Record<string, Column['type']>>): readonly Column[] {
  return Object.entries(types).map(([name, type]) => ({ name, type, sourceType: type }));
}

/** Which columns are compared, key first. */
export function columnNames(model: StormExport['model']): readonly string[] {
  return typesOf[model].map(({ name }) => name);
}

/**
 * Reads all that an export has delivered, as a customer does: from the manifests in the bucket. Only for
 * an interval without one the receipt says which files are current.
 *
 * @param untrue takes what a manifest says and what is not so
 */
export async function readDelivered(
  installation: Installation,
  { id, model }: StormExport,
  untrue: string[],
): Promise<readonly Delivered[]> {
  const intervals: Delivered[] = [];
  for (const current of await findCurrent(installation, id)) {
    const rows: (readonly [string, string])[] = [];
    for (const file of current.files) {
      const body = await readFile(installation, file, untrue);
      if (body === null) continue;
      const found = await readRows(body, current, model);
      if (found.length !== file.rows) {
        untrue.push(`${file.key} holds ${found.length} rows, not ${file.rows}`);
      }
      for (const row of found) rows.push(row);
    }
    intervals.push({ start: current.start, end: current.end, rows });
  }
  return intervals;
}

async function findCurrent({ s3, pool }: Installation, id: string): Promise<readonly Current[]> {
  const keys = (await s3.objects(bucket)).map(({ key }) => key);
  const current: Current[] = [];
  for (const key of keys) {
    if (!key.startsWith(`${id}/`) || !key.endsWith('_manifest.json')) continue;
    const manifest = JSON.parse((await s3.body(bucket, key)).toString());
    if (manifest.moved_to !== undefined) continue;
    const { data_interval_start: start, data_interval_end: end } = manifest;
    current.push({ ...manifest, start, end });
  }
  const { rows } = await pool.query<{
    start: Date;
    end: Date;
    files: NamedFile[];
    recipe: { format: string; compression: Compression };
  }>(
    `select data_interval_start as start, data_interval_end as end, files, recipe
       from receipts where export_id = $1 and manifest_key is null`,
    [id],
  );
  const bare = rows.map(({ start, end, files, recipe }) => ({
    start: start.toISOString(),
    end: end.toISOString(),
    files,
    ...recipe,
  }));
  return [...current, ...bare];
}

async function readFile({ s3 }: Installation, file: NamedFile, untrue: string[]) {
  const body = await s3.body(bucket, file.key).catch(() => null);
  if (body === null) {
    untrue.push(`${file.key} is not there`);
    return null;
  }
  const sha256 = createHash('sha256').update(body).digest('hex');
  if (body.length !== file.bytes || sha256 !== file.sha256) {
    untrue.push(`${file.key} has ${body.length} bytes ${sha256}, not ${file.bytes} ${file.sha256}`);
    return null;
  }
  return body;
}

async function readRows(
  body: Buffer,
  { format, compression }: Current,
  model: StormExport['model'],
): Promise<readonly (readonly [string, string])[]> {
  const names = columnNames(model);
  if (format === 'Parquet') {
    const rows = await readWithHyparquet(body, typesOf[model]);
    return rows.map((row) => rowOf(row.map(plain)));
  }
  const text = (await unpack(compression, body)).toString('utf8');
  if (format === 'CSV') {
    const [header = [], ...rows] = parseCsv(text);
    const positions = names.map((name) => header.indexOf(name));
    return rows.map((row) => rowOf(positions.map((position) => row[position] ?? '')));
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const row = JSON.parse(line);
      return rowOf(names.map((name) => row[name]));
    });
}

/** JSON and numbers are compared by their values, not by their spelling. */
export function rowOf(values: readonly unknown[]): readonly [string, string] {
  const [key, ...rest] = values.map((value) => {
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
    if (/^-?\d+\.\d+$/.test(text)) return String(Number(text));
    return text.startsWith('{') ? JSON.stringify(JSON.parse(text)) : text;
  });
  return [key ?? '', createHash('sha1').update(rest.join('\u0000')).digest('base64')];
}

function plain(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const seconds = value / 1_000_000n;
  const micros = String(value % 1_000_000n).padStart(6, '0');
  return `${new Date(Number(seconds) * 1_000).toISOString().slice(0, 19)}.${micros}Z`;
}

/** RFC 4180. */
function parseCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/gy;
  while (field.lastIndex < text.length) {
    const match = field.exec(text);
    if (!match) throw new Error('the CSV is not well-formed');
    row.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '');
    if (match[3] === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}
