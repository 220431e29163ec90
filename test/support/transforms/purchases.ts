import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect } from 'vitest';
import type { Compression } from '../../../src/rows/encoders/encoder.ts';
import { hour, projectPath } from '../exported-events.ts';
import { bucket, type Installation } from '../installation.ts';
import { casesOf } from '../nightly.ts';
import { unpack } from '../unpack.ts';
import { folderOfTest } from '../own-folder.ts';

/** Every tenth row has a price that is no number. */
export async function insertPurchases(installation: Installation, rows: number): Promise<void> {
  await installation.pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
     select gen_random_uuid(), $1, (array['$pageview', 'purchase', 'signup'])[1 + n % 3], 'user ' || n % 97,
            jsonb_build_object('n', n, 'email', 'user' || n % 97 || '@example.com', '$current_url', 'https://example.com/' || n,
              'price', case when n % 10 = 0 then 'free' else (n / 100.0)::text end, 'big', 9007199254740993 + n), at, at, at
       from generate_series(0, $2::int - 1) n,
            lateral (select $3::timestamptz + ($4::timestamptz - $3::timestamptz) * (n::float8 / $2) as at) t`,
    [installation.tenant.projectIds[0], rows, hour.start, hour.end],
  );
}

/** A row of `events` with the texts of its properties. */
export interface SourceRow {
  readonly uuid: string;
  readonly event: string;
  readonly p: Readonly<Record<string, string>>;
}

/** The rows of the source in the order of their arrival. */
export async function readSource(installation: Installation): Promise<SourceRow[]> {
  const { rows } = await installation.sql<SourceRow>`select uuid, event, jsonb_object(array(select k
    from jsonb_each_text(properties) e (k, v) order by k), array(select v from
    jsonb_each_text(properties) e (k, v) order by k)) as p from events order by inserted_at, uuid`;
  return rows;
}

/** Adds an enabled step by the API. @returns its id */
export async function addStep(
  installation: Installation,
  plugin: number,
  order: number,
  config: Readonly<Record<string, string>>,
): Promise<number> {
  const path = `${projectPath(installation)}/pipeline_transformation_configs/`;
  const made = await installation.client.post(path, { plugin, order, enabled: true, config });
  expect(made.status, made.text).toBe(201);
  return Number(made.body.id);
}

/** Installs a plugin by the API. @returns its id */
export async function installPlugin(
  { client, tenant }: Pick<Installation, 'client' | 'tenant'>,
  plugin: {
    readonly name: string;
    readonly source: string;
    readonly config_schema?: readonly object[];
  },
): Promise<number> {
  const path = `/api/organizations/${tenant.organizationId}/plugins/`;
  const made = await client.post(path, plugin);
  expect(made.status, made.text).toBe(201);
  return Number(made.body.id);
}

/** Deletes every step of the chain and every row of the source. */
export async function clearChain(installation: Installation): Promise<void> {
  await installation.pool.query('delete from events');
  const path = `${projectPath(installation)}/pipeline_transformation_configs/`;
  const { body } = await installation.client.get(path);
  for (const { id } of body.results) await installation.client.delete(`${path}${id}/`);
}

/** A row of a file, or as it should be. */
export interface ExportedRow {
  readonly uuid: string;
  readonly event: string;
  readonly who: string;
  /** As text: 9007199254740993 is more than a number holds. */
  readonly big: string;
  readonly price: string;
  /** Names and values of some properties. */
  readonly properties: string;
}

/** Formats with a compression, and how their files end. */
export const formats = casesOf<readonly [format: string, extension: string, compression: string]>(
  [['Parquet', '.parquet', 'zstd']],
  [
    ['JSONLines', '.jsonl.gz', 'gzip'],
    ['CSV', '.csv.gz', 'gzip'],
  ],
);

export async function readObject(
  installation: Installation,
  exportId: string,
  suffix: string,
): Promise<Buffer> {
  const objects = await installation.s3.objects(bucket);
  const found = objects.find(({ key }) => key.startsWith(exportId) && key.endsWith(suffix));
  expect(found, suffix).toBeDefined();
  return installation.s3.body(bucket, found?.key ?? '');
}

/** The reasons and keys of the rows that were rejected. */
export async function readRejected(
  installation: Installation,
  exportId: string,
): Promise<{ reason: string; row: object }[]> {
  const bytes = await readObject(installation, exportId, '_rejected.jsonl');
  return bytes
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/**
 * The rows of a file, each value as text: DuckDB's JSON would round numbers, so lines are read here.
 *
 * @param names the properties that are read
 */
export async function readRows(
  installation: Installation,
  exportId: string,
  format: string,
  extension: string,
  names: readonly string[],
): Promise<ExportedRow[]> {
  const compression: Compression = format === 'Parquet' ? null : 'gzip';
  const bytes = await unpack(compression, await readObject(installation, exportId, extension));
  const rows = format === 'JSONLines' ? readLines(bytes) : await readWithDuckDb(format, bytes);
  return rows.map((row) => ({ ...row, properties: namedIn(row.properties, names) }));
}

/** Names and values in a JSON text, as `ExportedRow` has them. */
export function namedIn(json: string, names: readonly string[]): string {
  return names
    .map((name) => `${name} ${new RegExp(`"${name}": ?"?([^",}]*)`).exec(json)?.[1]}`)
    .join(' ');
}

/** Of an uncompressed file of JSON Lines; `properties` is the whole JSON. */
export function readLines(bytes: Buffer): ExportedRow[] {
  const lines = bytes.toString().trim().split('\n');
  return lines.map((line) => {
    const row = JSON.parse(line) as ExportedRow;
    return { ...row, properties: line.slice(line.indexOf('"properties":') + 13, -1) };
  });
}

async function readWithDuckDb(format: string, bytes: Buffer): Promise<ExportedRow[]> {
  const folder = folderOfTest();
  const path = join(folder, 'rows');
  await writeFile(path, bytes);
  const source =
    format === 'CSV'
      ? `read_csv('${path}', all_varchar = true, header = true)`
      : `read_parquet('${path}')`;
  const connection = await (await DuckDBInstance.create()).connect();
  const reader = await connection.runAndReadAll(
    `select uuid::varchar as uuid, event, who, big, price, properties::varchar as properties from ${source}`,
  );
  return reader.getRowObjectsJson() as unknown as ExportedRow[];
}
