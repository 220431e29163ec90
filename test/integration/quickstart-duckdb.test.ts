import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect, onTestFinished, test } from 'vitest';
import { countWithDuckDb } from '../../src/clients/quickstart/duckdb.ts';
import { openDurableS3 } from '../../src/clients/quickstart/durable-s3.ts';

test('the quickstart counts the files that manifests name, not a replaced one beside them', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-duckdb-'));
  const { app } = await openDurableS3(path.join(folder, 's3'));
  const endpoint = await app.listen({ port: 0, host: '127.0.0.1' });
  const keys = { accessKeyId: 'any', secretAccessKey: 'any' };
  const client = new S3Client({
    endpoint,
    credentials: keys,
    region: 'us-east-1',
    forcePathStyle: true,
  });
  onTestFinished(async () => {
    client.destroy();
    await app.close();
    await rm(folder, { recursive: true, force: true });
  });
  const file = path.join(folder, 'rows.parquet');
  const duckdb = await (await DuckDBInstance.create()).connect();
  await duckdb.run(`copy (select uuid() as uuid from range(20)) to '${file}' (format parquet)`);
  duckdb.closeSync();

  const bucket = 'counted';
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  const put = async (Key: string, Body: string | Buffer) =>
    client.send(new PutObjectCommand({ Bucket: bucket, Key, Body }));
  const bytes = await readFile(file);
  await put('an export/hour.parquet', bytes);
  await put('an export/hour.v2.parquet', bytes);
  const manifest = {
    batch_export_id: 'x',
    run_id: 'y',
    era: 'z',
    generation: 2,
    files: [{ key: 'an export/hour.v2.parquet' }],
    rejected_files: [],
  };
  await put('an export/hour_manifest.json', JSON.stringify(manifest));
  const s3 = { endpoint, bucket, ...keys, kept: true, stop: async () => {} };
  expect(await countWithDuckDb(s3, 'an export/')).toEqual({ rows: 20, keys: 20 });
});
