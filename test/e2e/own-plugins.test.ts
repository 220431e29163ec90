import { afterEach, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  projectPath,
  retireExports,
  untilEnded,
} from '../support/exported-events.ts';
import { startInstallation } from '../support/installation.ts';
import { expectInvariants, findBreaches } from '../support/invariants.ts';
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

/** A built-in step, one in JavaScript that rejects, one in TypeScript with a secret. @returns the plugin of the last one */
async function addChain(mark = 'v1'): Promise<number> {
  const counter = await installPlugin(installation, {
    name: 'Totals',
    source: totals,
    config_schema: [{ key: 'rate', required: true }],
  });
  const shortener = await installPlugin(installation, {
    name: 'Shorten',
    source: shorten(mark),
    config_schema: [{ key: 'token', required: true, secret: true }],
  });
  await addStep(installation, 2, 1, { events: '$pageview', mode: 'drop' });
  await addStep(installation, counter, 2, { rate: '3', on_error: 'reject' });
  await addStep(installation, shortener, 3, { token });
  return shortener;
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

const rows = 100_000;

test.each(formats)(
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
    const logs = `${projectPath(installation)}/batch_exports/${exportId}/logs/?search=token`;
    const { text } = await installation.client.get(logs);
    expect(text).toContain('(Shorten) writes: the token is ********');
    expect(await expectInvariants(installation)).toMatchObject({ intervals: 1, unproven: [] });
  },
  600_000,
);

test('is not provable once a source of them is gone', async () => {
  await insertPurchases(installation, 300);
  // No other plugin has this source.
  const shortener = await addChain('v0');
  const exportId = await createS3Export(installation, { transformations: true });
  await backfill(installation, exportId);
  await untilEnded(installation, exportId);
  const { client, sql, tenant } = installation;
  const plugin = `/api/organizations/${tenant.organizationId}/plugins/${shortener}`;
  await client.patch(plugin, { source: shorten('v2') });
  await sql`delete from plugin_sources s where not exists (select from plugins p
      where p.source_sha256 = s.sha256)`;
  const after = await findBreaches(installation);
  expect(after.breaches).toEqual([]);
  expect(after.verified.unproven).toEqual([
    expect.stringMatching(
      /not provable, because .*the source [0-9a-f]{12} of its plugin was deleted/,
    ),
  ]);
});

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
