import { pipeline } from 'node:stream/promises';
import { gzipSync } from 'node:zlib';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { BareQueue } from './bare-queue.ts';
import type { BareWork } from './bare-work.ts';

/**
 * What no exporter can leave out, and nothing else: claim, BEGIN, snapshot, count, COPY, PUT of the file and
 * the manifest, one UPDATE; with the connections, the places and the programs of a worker, and no guarantees. It gets its
 * work from its parent, as often as it asks, and answers each with the time that it took. If the work says so, each run is
 * a BullMQ job: what a queue costs that guarantees nothing either.
 */
const [
  url = '',
  endpoint = '',
  accessKeyId = '',
  secretAccessKey = '',
  places = '',
  redisUrl = '',
] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: url, max: 20 });
const s3 = new S3Client({
  endpoint,
  region: 'us-east-1',
  forcePathStyle: true,
  requestChecksumCalculation: 'WHEN_REQUIRED',
  credentials: { accessKeyId, secretAccessKey },
});
const hourMs = 3_600_000;
const columns =
  'uuid, event, properties, distinct_id, person_id, person_properties, elements_chain, "timestamp", created_at, inserted_at';
const rowsOf = 'from events where team_id = $1 and inserted_at >= $2 and inserted_at < $3';

async function runOne(id: number, { start, hours, teams, toS3 }: BareWork): Promise<void> {
  const claimed = await pool.query({
    name: 'claim',
    text: `update bare_runs set status = 'Running', started_at = now() where id = $1 and status = 'Starting'`,
    values: [id],
  });
  if (claimed.rowCount !== 1) throw new Error(`${id} is not there`);
  const team = teams[id % teams.length];
  const hour = start + (Math.floor(id / teams.length) % hours) * hourMs;
  const [from, until] = [hour, hour + hourMs].map((at) => new Date(at).toISOString());
  const client = await pool.connect();
  let rows = 0;
  const chunks: Buffer[] = [];
  try {
    await client.query('begin transaction isolation level repeatable read read only');
    await client.query({ name: 'snapshot', text: 'select pg_current_snapshot()' });
    const counted = await client.query<{ rows: number }>({
      name: 'count',
      text: `select count(*)::int as rows ${rowsOf}`,
      values: [team, from, until],
    });
    rows = counted.rows[0]?.rows ?? 0;
    const values = [String(team), `'${from}'`, `'${until}'`];
    const where = rowsOf.replace(/\$(\d)/g, (_, n) => values[Number(n) - 1] ?? '');
    await pipeline(
      client.query(
        copyTo(`copy (select row_to_json(e) from (select ${columns} ${where}) e) to stdout`),
      ),
      async (stream) => {
        for await (const chunk of stream) chunks.push(chunk as Buffer);
      },
    );
    await client.query('commit');
  } finally {
    client.release();
  }
  if (toS3 && rows > 0) {
    const put = (key: string, body: Buffer) =>
      s3.send(new PutObjectCommand({ Bucket: 'exports', Key: `bare/${id}/${key}`, Body: body }));
    const body = gzipSync(Buffer.concat(chunks), { level: 5 });
    await put('rows.jsonl.gz', body);
    await put('manifest.json', Buffer.from(JSON.stringify({ rows, bytes: body.length })));
  }
  await pool.query({
    name: 'finish',
    text: `update bare_runs set status = 'Completed', finished_at = now(), rows = $2 where id = $1`,
    values: [id, rows],
  });
}

/** What the jobs belong to. */
let current: BareWork | null = null;
let queue: Promise<BareQueue> | null = null;

process.on('message', async (work: BareWork) => {
  current = work;
  queue ??= BareQueue.open(url, redisUrl, Number(places), async (id) => {
    if (current) await runOne(id, current);
  });
  const opened = await queue;
  const began = performance.now();
  if (work.asJobs) {
    await opened.runAll(work.ids);
  } else {
    const waiting = [...work.ids];
    const place = async () => {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) await runOne(id, work);
    };
    await Promise.all(Array.from({ length: Number(places) }, place));
  }
  process.send?.({ wallMs: performance.now() - began });
});
process.on('disconnect', () => process.exit());
process.stdout.write('ready bare loop\n');
