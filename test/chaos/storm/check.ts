import { createHash } from 'node:crypto';
import type { Column } from '../../../src/foundation/domain/row-block.ts';
import type { Compression } from '../../../src/rows/encoders/encoder.ts';
import { bucket, type Installation } from '../../support/installation.ts';
import { readWithHyparquet } from '../../support/parquet-readers.ts';
import { unpack } from '../../support/unpack.ts';
import type { StormExport, World } from './world.ts';

/** What is not as it must be; each list names rows, files or intervals. */
export interface Verdict {
  readonly rows: number;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  readonly changed: readonly string[];
  /** Rows that the source does not have any more, or never had. */
  readonly foreign: readonly string[];
  /** Rows that were delivered before they left the source, and are not in the files any more: `export: key`. */
  readonly gone: readonly string[];
  readonly untrue: readonly string[];
  /** Intervals that had a run and that nothing current holds. */
  readonly missing: readonly string[];
}

/** Compares the source with what all exports have delivered, row by row. */
export async function compare(world: World): Promise<Verdict> {
  const verdict = {
    rows: 0,
    lost: [] as string[],
    doubled: [] as string[],
    changed: [] as string[],
    foreign: [] as string[],
    gone: [] as string[],
    untrue: [] as string[],
    missing: [] as string[],
  };
  for (const one of world.exports) {
    const intervals = await readDelivered(world.installation, one, verdict.untrue);
    const source = await readSource(world, one);
    const seen = new Map<string, string>();
    for (const { start, rows } of intervals) {
      for (const [key, values] of rows) {
        verdict.rows += 1;
        const at = `${one.name} ${start}: ${key}`;
        if (seen.has(key)) verdict.doubled.push(`${at} and ${seen.get(key)}`);
        seen.set(key, start);
        const expected = source.get(key);
        if (expected === undefined) verdict.foreign.push(at);
        else if (expected.values !== values) verdict.changed.push(at);
      }
    }
    for (const delivery of world.pruned) {
      const [name, key = ''] = delivery.split(': ');
      if (name === one.name && !seen.has(key)) verdict.gone.push(delivery);
    }
    const covered = coverOf(intervals);
    for (const [key, { at }] of source) {
      if (!seen.has(key) && covered(at)) {
        verdict.lost.push(`${one.name}: ${key} of ${new Date(at).toISOString()}`);
      }
    }
    const starts = intervals.map(({ start }) => Date.parse(start));
    for (const start of await readRunStarts(world, one)) {
      const times = starts.filter((found) => found === start).length;
      const interval = `${one.name} ${new Date(start).toISOString()}`;
      if (times === 0) verdict.missing.push(interval);
      if (times > 1) verdict.doubled.push(`${interval} is current ${times} times`);
    }
  }
  return verdict;
}

function coverOf(intervals: readonly Delivered[]): (at: number) => boolean {
  const ranges = intervals.map(({ start, end }) => [Date.parse(start), Date.parse(end)] as const);
  return (at) => ranges.some(([start, end]) => at >= start && at < end);
}

async function readSource({ installation }: World, { model }: StormExport) {
  const names = columnNames(model);
  const time = names.at(-1);
  const { rows } = await installation.pool.query<Record<string, unknown> & { at_ms: number }>(
    `select *, to_char(${time} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as ${time},
            floor(extract(epoch from ${time}) * 1000)::float8 as at_ms
       from ${model} where team_id = $1`,
    [installation.tenant.projectIds[0]],
  );
  return new Map(
    rows.map((row) => {
      const [key, values] = rowOf(names.map((name) => row[name]));
      return [key, { values, at: row.at_ms }] as const;
    }),
  );
}

async function readRunStarts({ installation }: World, { id }: StormExport) {
  const { rows } = await installation.sql<{ start: Date }>`select distinct data_interval_start
    as start from runs where export_id = ${id}`;
  return rows.map(({ start }) => start.getTime());
}

/** What a reader of the bucket gets for one interval. */
interface Delivered {
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
function columnNames(model: StormExport['model']): readonly string[] {
  return typesOf[model].map(({ name }) => name);
}

/**
 * Reads all that an export has delivered, as a customer does: from the manifests in the bucket. Only for
 * an interval without one the receipt says which files are current.
 *
 * @param untrue takes what a manifest says and what is not so
 */
async function readDelivered(
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
function rowOf(values: readonly unknown[]): readonly [string, string] {
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
