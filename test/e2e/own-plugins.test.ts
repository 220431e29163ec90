import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { untilWritersEnded } from '../support/database.ts';
import {
  backfill,
  createS3Export,
  hour,
  projectPath,
  retireExports,
  untilEnded,
} from '../support/exported-events.ts';
import { bucket, startInstallation } from '../support/installation.ts';
import { expectInvariants, findBreaches } from '../support/invariants.ts';
import { casesOf, isNightly } from '../support/nightly.ts';
import {
  addStep,
  clearChain,
  type ExportedRow,
  formats,
  insertPurchases,
  installPlugin,
  readRejected,
  readRows,
  readSource,
} from '../support/transforms/purchases.ts';
import { useStage } from '../support/use-stage.ts';

const installation = useStage(() =>
  startInstallation({ workers: 1, env: { WORKER_MEMORY_MB: '1024' } }),
);
afterEach(async () => {
  await retireExports(installation);
  await clearChain(installation);
});

const token = 'canary "token" of a plugin';

/** Drops every 11th row, fails without a price, and adds the total. */
const totals = `
let rate;
exports.setupPlugin = ({ config, global }) => { global.rate = Number(config.rate); };
exports.processEvent = (event, meta) => {
  const { n, price } = event.properties;
  if (n % 11 === 0) return null;
  if (price === 'free') throw new RangeError('no price: ' + event.properties.email);
  return { ...event, properties: { ...event.properties, total: n * meta.global.rate } };
};`;

/** Names events in upper case and shortens addresses. */
const shorten = (mark: string) => `
interface Event { event: string; properties: Record<string, unknown> }
type Meta = { config: { token: string } };

export async function processEvent(event: Event, { config }: Meta): Promise<Event> {
  const [user] = String(event.properties.email).split('@');
  event.event = event.event.toUpperCase();
  event.properties.email = \`${mark} \${config.token.length} \${user}\`;
  event.properties.dice = Math.random();
  console.log('the token is', config.token, { config });
  return event;
}`;

interface Chain {
  readonly shortener: number;
  readonly steps: readonly number[];
}

/** A built-in step, one in JavaScript that rejects, one in TypeScript with a secret. */
async function addChain(mark = 'v1'): Promise<Chain> {
  const schema = [{ key: 'rate', required: true }];
  const counter = await installPlugin(installation, {
    name: 'Totals',
    source: totals,
    config_schema: schema,
  });
  const shortener = await installPlugin(installation, {
    name: 'Shorten',
    source: shorten(mark),
    config_schema: [{ key: 'token', required: true, secret: true }],
  });
  return {
    shortener,
    steps: [
      await addStep(installation, 2, 1, { events: '$pageview', mode: 'drop' }),
      await addStep(installation, counter, 2, { rate: '3', on_error: 'reject' }),
      await addStep(installation, shortener, 3, { token }),
    ],
  };
}

const names = ['n', 'email', 'price', 'big', 'total'];

/** What the chain should make of the source's rows, made without it. */
async function expectedRows(mark: string): Promise<{ kept: ExportedRow[]; rejected: string[] }> {
  const rows = (await readSource(installation))
    .filter(({ event }) => event !== '$pageview')
    .filter(({ p }) => Number(p.n) % 11 !== 0);
  return {
    rejected: rows.filter(({ p }) => p.price === 'free').map(({ uuid }) => uuid),
    kept: rows
      .filter(({ p }) => p.price !== 'free')
      .map(({ uuid, event, p }) => {
        const who = `${mark} ${token.length} ${p.email?.split('@')[0]}`;
        const { n, price = '', big = '' } = p;
        const properties = `n ${n} email ${who} price ${price} big ${big} total ${Number(n) * 3}`;
        return { uuid, event: event.toUpperCase(), who, big, price, properties };
      }),
  };
}

const query = `SELECT uuid, event, properties.email AS who, properties.big, properties.price, properties FROM events`;

describe("an export through an organization's own plugins", () => {
  const rows = isNightly ? 100_000 : 3_000;

  test.each(casesOf(formats.slice(0, 1), formats.slice(1)))(
    'writes to %s what they make of each row',
    async (format, extension, compression) => {
      await insertPurchases(installation, rows);
      await addChain();
      const exportId = await createS3Export(installation, {
        transformations: true,
        dsl_query: query,
        config: { file_format: format, compression },
      });
      await backfill(installation, exportId);
      const [run] = await untilEnded(installation, exportId, { timeoutMs: 200_000 });
      expect(run, run?.latestError ?? '').toMatchObject({ status: 'Completed' });
      const { kept, rejected } = await expectedRows('v1');
      expect(await readRows(installation, exportId, format, extension, names)).toEqual(kept);
      const left = await readRejected(installation, exportId);
      expect(left.map(({ row }) => row)).toEqual(rejected.map((uuid) => ({ uuid })));
      expect(new Set(left.map(({ reason }) => reason))).toEqual(
        new Set(['The plugin threw a RangeError.']),
      );
      expect(await expectInvariants(installation)).toMatchObject({ intervals: 1, unproven: [] });
    },
    isNightly ? 600_000 : 240_000,
  );

  test('has what they write in its log, bounded and without their secrets', async () => {
    await insertPurchases(installation, 600);
    const { steps } = await addChain();
    const exportId = await createS3Export(installation, { transformations: true });
    await backfill(installation, exportId);
    await untilEnded(installation, exportId);
    const path = `${projectPath(installation)}/batch_exports/${exportId}/logs/?limit=1000`;
    const { body } = await installation.client.get(path);
    const messages = body.results.map(({ message }) => String(message));
    const own = messages.filter((message) => message.startsWith(`Step ${steps[2]} (Shorten)`));
    const line = `Step ${steps[2]} (Shorten) writes: the token is ******** {"config":{"token":"********"}}`;
    expect(own.filter((message) => message === line)).toHaveLength(200);
    expect(own).toContainEqual(expect.stringMatching(/: \d+ lines of its plugin were left out\.$/));
    const failed = messages.filter((message) => message.includes('The plugin threw a RangeError.'));
    expect(failed, 'errors of one kind are one line').toHaveLength(1);
    expect(failed[0]).not.toContain('example.com');
  }, 60_000);

  test('written without them is a breach, and not provable once a source is gone', async () => {
    await insertPurchases(installation, 300);
    // No other plugin has this source.
    const { steps, shortener } = await addChain('v0');
    const exportId = await createS3Export(installation, { transformations: true });
    await backfill(installation, exportId);
    await untilEnded(installation, exportId);
    const { client, pool, tenant } = installation;
    // The files of a build that forgot one step: the recipe names all of them.
    const path = `${projectPath(installation)}/pipeline_transformation_configs/${steps[2]}/`;
    await client.patch(path, { enabled: false });
    const recipes = `select recipe from receipts where export_id = $1`;
    const { rows: before } = await pool.query(recipes, [exportId]);
    // Otherwise the rows do not show that they are older than what the run sees.
    await untilWritersEnded(pool);
    await backfill(installation, exportId, hour, { reprocess: 'all' });
    await untilEnded(installation, exportId, { count: 2 });
    expect((await findBreaches(installation)).breaches).toEqual([]);
    const forge = 'update receipts set recipe = $2 where export_id = $1';
    await pool.query(forge, [exportId, before[0]?.recipe]);
    const { breaches } = await findBreaches(installation);
    expect(breaches).toHaveLength(1);
    expect(breaches[0]).toMatch(/I3.*the files are not what the transformation chain makes/);

    const plugin = `/api/organizations/${tenant.organizationId}/plugins/${shortener}`;
    await client.patch(plugin, { source: shorten('v2') });
    await pool.query(
      'delete from plugin_sources s where not exists (select from plugins p where p.source_sha256 = s.sha256)',
    );
    const after = await findBreaches(installation);
    expect(after.breaches).toEqual([]);
    expect(after.verified.unproven).toEqual([
      expect.stringMatching(
        /not provable, because .*the source [0-9a-f]{12} of its plugin was deleted/,
      ),
    ]);
  });

  test.each([
    [
      'a setup that throws',
      'export function setupPlugin({ config }) { throw new Error("no " + config.token); } export function processEvent(e) { return e; }',
      'its setupPlugin failed: Error: no ********',
      'transformation.invalid',
    ],
    [
      'a loop without end',
      'export function processEvent(e) { for (;;); }',
      'it took more than 1000 ms for a row',
      'transformation.plugin_failed',
    ],
  ])(
    'fails before it writes a byte with %s',
    async (_what, source, text, code) => {
      await insertPurchases(installation, 30);
      const plugin = await installPlugin(installation, {
        name: 'Mine',
        source,
        config_schema: [{ key: 'token', required: true, secret: true }],
      });
      const step = await addStep(installation, plugin, 1, { token });
      const exportId = await createS3Export(installation, { transformations: true });
      await backfill(installation, exportId);
      const [run] = await untilEnded(installation, exportId);
      expect(run).toMatchObject({ status: 'Failed', errorCode: code, attempt: 1 });
      expect(run?.latestError).toContain(`step ${step}`);
      expect(run?.latestError).toContain(text);
      const keys = (await installation.s3.objects(bucket)).map(({ key }) => key);
      expect(keys.filter((key) => key.includes(exportId))).toEqual([]);
      const path = `${projectPath(installation)}/pipeline_transformation_configs/${step}/`;
      expect((await installation.client.get(path)).body.error).toContain(text);
    },
    60_000,
  );

  test('fails with the setting to raise if its worker can never hold them', async () => {
    await insertPurchases(installation, 30);
    const plugin = await installPlugin(installation, { name: 'Mine', source: shorten('v1') });
    for (const order of [1, 2, 3, 4]) await addStep(installation, plugin, order, {});
    const exportId = await createS3Export(installation, { transformations: true });
    await backfill(installation, exportId);
    const [run] = await untilEnded(installation, exportId);
    expect(run).toMatchObject({ status: 'Failed', errorCode: 'transformation.needs_memory' });
    expect(run?.latestError).toMatch(
      /4 steps have a plugin of your own.*WORKER_MEMORY_MB is \d+ MiB too small/,
    );
  }, 60_000);

  test('takes three plugins of the community as they are', async () => {
    await installation.pool.query(
      `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
       select gen_random_uuid(), $1, 'visit', 'user ' || n,
              jsonb_build_object('n', n, '$current_url', 'https://a.example/?plan=plan%20' || n, 'app', n || '.2.3'), at, at, at
         from generate_series(0, 499) n, lateral (select $2::timestamptz + n * interval '7 seconds' as at) t`,
      [installation.tenant.projectIds[0], hour.start],
    );
    const settings = {
      'url-parameters': { parameters: 'plan', prefix: 'url_' },
      'semver-flattener': { properties: 'app' },
      'timestamp-parser': {},
    };
    for (const [order, [folder, config]] of Object.entries(settings).entries()) {
      const fileOf = (name: string) =>
        readFileSync(
          new URL(`../support/sandbox/plugins/${folder}/${name}`, import.meta.url),
          'utf8',
        );
      const { name, config: fields } = JSON.parse(fileOf('plugin.json'));
      const source = fileOf(folder === 'url-parameters' ? 'index.ts.txt' : 'index.js');
      const schema = fields.filter((field: object) => 'key' in field);
      const plugin = await installPlugin(installation, { name, source, config_schema: schema });
      await addStep(installation, plugin, order, config);
    }
    const exportId = await createS3Export(installation, {
      transformations: true,
      dsl_query: `SELECT uuid, event, properties.url_plan AS who, properties.app__major AS big, properties.minute AS price, properties FROM events`,
      config: { file_format: 'JSONLines', compression: 'gzip' },
    });
    await backfill(installation, exportId);
    const [run] = await untilEnded(installation, exportId);
    expect(run, run?.latestError ?? '').toMatchObject({ status: 'Completed' });
    const shown = ['url_plan', 'app__minor', 'day_of_the_week', 'hour'];
    const expected = (await readSource(installation)).map(({ uuid, event, p: { n = '' } }) => ({
      uuid,
      event,
      who: `plan ${n}`,
      big: n,
      price: String(Math.floor((Number(n) * 7) / 60)),
      properties: `url_plan plan ${n} app__minor 2 day_of_the_week Friday hour 0`,
    }));
    expect(await readRows(installation, exportId, 'JSONLines', '.jsonl.gz', shown)).toEqual(
      expected,
    );
    expect(await expectInvariants(installation)).toMatchObject({ intervals: 1, unproven: [] });
  }, 120_000);
});
