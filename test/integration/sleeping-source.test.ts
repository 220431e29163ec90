import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import { createLogger } from '../../src/foundation/telemetry/logger.ts';
import { createMetrics } from '../../src/foundation/telemetry/metrics.ts';
import { joinSources } from '../../src/main/models.ts';
import { watchSources } from '../../src/main/watch-sources.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { createExportOfThePast, decide, openRunSide, type RunSide } from '../support/run-side.ts';
import { until } from '../support/until.ts';

let side: RunSide;
let source: TestDatabase;
beforeAll(async () => {
  side = await openRunSide();
  source = await createEmptyDatabase();
});
afterAll(async () => {
  await source.drop();
  await side.stop();
});

/** Sessions that were ever opened at the source. */
async function countSessions(): Promise<number> {
  const name = new URL(source.url).pathname.slice(1);
  const [row] = await side.db.query<{ sessions: number }>(
    'select sessions from pg_stat_database where datname = $1',
    [name],
  );
  return Number(row?.sessions);
}

test('a source is looked at once for all of its models, and again only while runs need it', async () => {
  const models = ['events', ...Array.from({ length: 10 }, (_, n) => `model_${n}`)].map((name) => ({
    model: { ...eventsModel, name },
    sourceUrl: null,
    primaryUrl: null,
  }));
  const { url } = source;
  let looks = 0;
  // Each round begins with a look at our own database.
  const db: RunSide['db'] = {
    ...side.db,
    query: (text, values) => {
      if (text.startsWith('select distinct model')) looks += 1;
      return side.db.query(text, values);
    },
  };
  const metrics = createMetrics();
  const watch = watchSources(
    {
      ...{ db, models, metrics, logger: createLogger('silent', { role: 'test' }) },
      sourceOf: joinSources(readConfig({}), models, url),
    },
    50,
  );
  const untilRounds = (more: number) => {
    const wanted = looks + more;
    return until(() => looks >= wanted);
  };
  try {
    await untilRounds(2);
    expect(await countSessions()).toBe(1);
    const offsets = await metrics.source.clockOffsetSeconds.get();
    expect(offsets.values).toHaveLength(models.length);
    await untilRounds(5);
    expect(await countSessions()).toBe(1);
    await createExportOfThePast(side);
    await decide(side.context);
    await until(async () => (await countSessions()) > 2);
    await side.db.query(
      `update runs set status = 'Cancelled', finished_at = now() - interval '1 hour'`,
    );
    await untilRounds(2);
    const before = await countSessions();
    await untilRounds(5);
    expect(await countSessions()).toBe(before);
    expect(watch.fault()).toBe(null);
  } finally {
    await watch.close();
  }
});
