import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import pg from 'pg';
import QueryStream from 'pg-query-stream';
import { reportTaken } from './taken.ts';

/** The same export as one writes it from the libraries' examples. */
const [url = '', endpoint = '', select = ''] = process.argv.slice(2);
const client = new pg.Client(url);
await client.connect();
const s3 = new S3Client({
  endpoint,
  region: 'us-east-1',
  forcePathStyle: true,
  credentials: { accessKeyId: 'bench', secretAccessKey: 'bench' },
});
let rows = 0;

await reportTaken(async () => {
  const toLine = new Transform({
    writableObjectMode: true,
    transform(row, _encoding, done) {
      rows += 1;
      done(null, `${JSON.stringify(row)}\n`);
    },
  });
  const gzip = createGzip();
  const upload = new Upload({
    client: s3,
    params: { Bucket: 'bench', Key: 'naive.jsonl.gz', Body: gzip },
  });
  await Promise.all([pipeline(client.query(new QueryStream(select)), toLine, gzip), upload.done()]);
  await client.end();
  return { rows, bytes: null };
});
