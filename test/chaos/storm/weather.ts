import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Fault, FaultEffect } from '../../support/s3-server/faults.ts';
import type { OperationName } from '../../support/s3-server/operations.ts';
import type { S3Quirks } from '../../support/s3-server/quirks.ts';
import type { Fleet } from './fleet.ts';
import { type Random, randomOf } from '../../support/random.ts';
import { act, persistently, type World } from './world.ts';

/** How long after their client gave up requests may still take effect. */
const longestLateMs = 5_000;
const often = Number.POSITIVE_INFINITY;

/** What stays true of the answer, and takes no longer than a lease. */
const quick: readonly [FaultEffect, ...FaultEffect[]] = [
  { status: 500, code: 'InternalError' },
  { status: 503, code: 'SlowDown' },
  { resetAfterBytes: 0 },
  { resetAfterBytes: 700 },
  { loseResponse: true },
  { okWithError: 'InternalError' },
  { cutBodyAfterBytes: 40 },
  { foreignAnswer: { status: 502, body: '<html>Bad Gateway</html>' } },
  {
    foreignAnswer: {
      status: 403,
      body: '<Error><Code>AccessDenied</Code><Mess',
      contentType: 'application/xml',
      unended: true,
    },
  },
  {
    foreignAnswer: {
      status: 404,
      body: '<Error><Code>NoSuchBucket</Code>',
      contentType: 'application/xml',
      unended: true,
    },
  },
];

const slow: readonly [FaultEffect, ...FaultEffect[]] = [
  { delayMs: 400 },
  { delayMs: 2_500 },
  { delayMs: 2_500, outlivesClient: true },
  { delayMs: longestLateMs, outlivesClient: true },
  { halfOpen: true },
  { trickleBytesPerSecond: 50_000 },
];

const committing: readonly [OperationName, ...OperationName[]] = [
  'PutObject',
  'CompleteMultipartUpload',
  'DeleteObject',
  'AbortMultipartUpload',
  'CreateMultipartUpload',
];

const strangers: readonly [S3Quirks, ...S3Quirks[]] = [
  { checksums: 'ignore' },
  { quotedIfMatch: 'refuse' },
  { missingObject: 'empty' },
  { completeConditions: 'refuse' },
  {},
];

const withoutConditions: readonly [S3Quirks, ...S3Quirks[]] = [
  { ifNoneMatch: 'ignore', ifMatch: 'ignore', completeConditions: 'ignore' },
  { ifNoneMatch: 'refuse', ifMatch: 'refuse', completeConditions: 'refuse' },
];

/** The store: bursts of faults with calm between them, and now and then another make of store. */
export async function storeWeather(world: World, fleet: Fleet, signal: AbortSignal) {
  const { s3 } = world.installation;
  const random = randomOf(world.seed, 'store');
  let step = 0;
  let quirks: S3Quirks = {};
  while (!signal.aborted) {
    step += 1;
    if (step % 12 === 0) {
      await stormWithoutConditions(world, fleet, random, signal);
      quirks = {};
      continue;
    }
    if (step % 3 === 0) {
      quirks = random.pick(strangers);
      await s3.setQuirks(quirks);
    }
    if (step % 5 === 0) await s3.faults.add(deniedOnce(world));
    for (let n = random.pick([1, 2, 3]); n > 0; n -= 1) await s3.faults.add(drawFault(random));
    await pause(random.between(3_000, 8_000), signal);
    await s3.faults.clear();
    await pause(random.between(500, 2_000), signal);
  }
  await s3.faults.clear();
  await s3.setQuirks({});
}

/** A whole answer that is not true, once, of a destination that has worked for long. */
function deniedOnce({ exports }: World): Fault {
  const packed = exports.find(({ name }) => name === 'packed');
  return {
    match: { operation: 'UploadPart', key: new RegExp(packed?.id ?? 'none') },
    times: 1,
    effect: { status: 403, code: 'AccessDenied' },
  };
}

function drawFault(random: Random): Fault {
  const [isSlow, some, operation] = [random.chance(0.4), random.chance(0.3), random.next()];
  const [quickly, slowly] = [random.pick(quick), random.pick(slow)];
  const match = isSlow || some ? { operation: ofChance(committing, operation) } : {};
  return {
    match,
    probability: isSlow && 'halfOpen' in slowly ? 0.05 : 0.2,
    times: often,
    effect: isSlow ? slowly : quickly,
  };
}

function ofChance<T>(items: readonly [T, ...T[]], chance: number): T {
  return items[Math.floor(chance * items.length)] ?? items[0];
}

/** Only the lease keeps two workers apart now: no worker freezes, and no request comes late. */
async function stormWithoutConditions(
  world: World,
  fleet: Fleet,
  random: Random,
  signal: AbortSignal,
): Promise<void> {
  const { s3, pool } = world.installation;
  world.mayFreeze = false;
  fleet.thawAll();
  await pause(longestLateMs + 1_000, signal);
  await s3.setQuirks(random.pick(withoutConditions));
  const fault = { match: {}, probability: 0.1, times: often, effect: random.pick(quick) };
  await s3.faults.add(fault);
  await pause(random.between(6_000, 12_000), signal);
  await s3.faults.clear();
  await s3.setQuirks({});
  // A store that got another release is tried again a week later. Until then its new conditions are not
  // used, so that no worker of this time may be frozen later.
  await fleet.killAll();
  await persistently(async () => pool.query('update batch_exports set store_traits = null'));
  world.mayFreeze = true;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {});
}

/** The database: restarts, cut connections, and a standby that lags. */
export async function databaseWeather(world: World, signal: AbortSignal): Promise<void> {
  const { replication, proxy, counts } = world;
  const restarting = randomOf(world.seed, 'restarts');
  const cutting = randomOf(world.seed, 'cuts');
  const lagging = randomOf(world.seed, 'lag');
  await Promise.all([
    act(
      signal,
      () => restarting.between(15_000, 35_000),
      async () => {
        await replication.primary.restart(restarting.pick(['fast', 'immediate']));
        counts.restarts += 1;
      },
    ),
    act(
      signal,
      () => cutting.between(2_000, 8_000),
      async () => {
        if (cutting.chance(0.4)) proxy.cut();
        else proxy.resetAfterBytes(Math.floor(cutting.between(1, 100_000)));
      },
    ),
    act(
      signal,
      () => lagging.between(3_000, 12_000),
      async () => {
        const ms = lagging.between(500, 2.5 * 3_000);
        await replication.pauseReplay();
        await pause(ms, signal);
        await persistently(() => replication.resumeReplay());
      },
    ),
  ]);
  await persistently(() => replication.resumeReplay());
}

/** Redis loses all its data, or is unreachable for a while. */
export async function redisWeather(world: World, signal: AbortSignal): Promise<number> {
  const { redis } = world.installation;
  if (redis === null) return 0;
  const random = randomOf(world.seed, 'redis');
  let losses = 0;
  await act(
    signal,
    () => random.between(5_000, 20_000),
    async () => {
      const [flush, ms] = [random.chance(0.5), random.between(0, 4_000)];
      if (flush) {
        const admin = new Redis(redis.url, { maxRetriesPerRequest: 1 });
        admin.on('error', () => {});
        await admin.flushall().finally(() => admin.disconnect());
      } else {
        await redis.kill();
        await sleep(ms);
        await persistently(() => redis.restart());
      }
      losses += 1;
    },
  );
  return losses;
}
