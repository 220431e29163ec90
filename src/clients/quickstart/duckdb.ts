import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GetObjectCommand, paginateListObjectsV2, type S3Client } from '@aws-sdk/client-s3';
import { decodeManifest } from '../../rows/pipeline/manifest.ts';
import { connect, type QuickstartS3 } from './local-s3.ts';

/** The rows that another program finds in the Parquet files of a bucket. */
export interface ParquetCount {
  readonly rows: number;
  readonly keys: number;
}

/** Says whether DuckDB is installed; it comes with the development packages. */
export async function hasDuckDb(): Promise<boolean> {
  return (await loadDuckDb()) !== null;
}

/** Counts the rows and the different keys of the files that the manifests under a prefix name, as DuckDB reads them. */
export async function countWithDuckDb(s3: QuickstartS3, prefix: string): Promise<ParquetCount> {
  const duckdb = await loadDuckDb();
  if (!duckdb) throw new Error('DuckDB is not installed');
  const folder = await mkdtemp(join(tmpdir(), 'sluice-quickstart-'));
  try {
    await download(s3, prefix, folder);
    const instance = await duckdb.DuckDBInstance.create();
    const connection = await instance.connect();
    const reader = await connection.runAndReadAll(
      `select count(*)::int as rows, count(distinct uuid)::int as keys
         from read_parquet('${folder}/*.parquet')`,
    );
    const [row] = reader.getRowObjects();
    connection.closeSync();
    return { rows: Number(row?.rows), keys: Number(row?.keys) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function loadDuckDb() {
  return import('@duckdb/node-api').catch(() => null);
}

async function download(s3: QuickstartS3, prefix: string, folder: string): Promise<void> {
  const client = connect(s3.endpoint, s3);
  try {
    let index = 0;
    const pages = paginateListObjectsV2({ client }, { Bucket: s3.bucket, Prefix: prefix });
    for await (const { Contents = [] } of pages) {
      for (const { Key: manifestKey } of Contents) {
        if (!manifestKey?.endsWith('_manifest.json')) continue;
        const manifest = await decodeManifest(
          Buffer.from(await read(client, s3.bucket, manifestKey)),
        );
        // A replaced file may stay for a day: only what a manifest names counts.
        for (const { key } of manifest?.files ?? []) {
          await writeFile(join(folder, `${index++}.parquet`), await read(client, s3.bucket, key));
        }
      }
    }
  } finally {
    client.destroy();
  }
}

async function read(client: S3Client, Bucket: string, Key: string): Promise<Uint8Array> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
  return (await Body?.transformToByteArray()) ?? new Uint8Array();
}
