import { afterAll, beforeAll, describe, test } from 'vitest';
import { callRunningService } from '../support/api-under-test.ts';
import {
  type Installation,
  type QueueKind,
  startInstallation,
  testedQueues,
} from '../support/installation.ts';
import { casesOf } from '../support/nightly.ts';

/**
 * What a client sees of the contract, black-box. All suites call an API in the process of the test too; by day the
 * processes get those about connections and the queue.
 */
const suites = casesOf(
  ['http', 'backfills'],
  ['batch-exports', 'batch-export-changes', 'runs-and-logs', 'idempotency'],
);

/** The API only puts jobs into its queue; the suites of both are the same. */
const queues = casesOf<QueueKind>(['postgres'], ['redis']);

describe.each(queues)('real processes, the queue in %s', async (queue) => {
  if (!testedQueues().includes(queue)) {
    test.skip('there is no redis-server');
    return;
  }
  let installation: Installation;

  beforeAll(async () => {
    installation = await startInstallation({
      queue,
      workers: 1,
      env: {
        MIN_INTERVAL_MINUTES: '5',
        RETRY_BASE_SECONDS: '30',
        // Nothing listens there: the worker retries what it takes for longer than any test lasts.
        AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1',
      },
    });
    const { client, databaseUrl, db, env, shop } = installation;
    const itsShop = { url: env.SHOP_DATABASE_URL ?? '', open: async () => shop };
    callRunningService({ baseUrl: client.baseUrl, databaseUrl, db, shop: itsShop });
  });
  afterAll(async () => {
    callRunningService(null);
    await installation?.close();
  });

  for (const suite of suites) {
    describe(suite, async () => {
      // A module of its own in each lane, so that its tests are declared again.
      await import(new URL(`../integration/api/${suite}.test.ts?${queue}`, import.meta.url).href);
    });
  }
});
