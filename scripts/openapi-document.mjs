import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';

const built = (module) => import(`../dist/${module}.js`);

/**
 * The document of an API that serves no request: it opens no database and no queue.
 *
 * @param load imports a module by its path below `src`, without its ending
 */
export async function readDocument(load = built) {
  const { buildApi } = await load('service/api/build-api');
  const { readConfig } = await load('foundation/config/config');
  const { registry } = await load('main/connectors');
  const { policyOf } = await load('main/policy');
  const { createSecretBox } = await load('foundation/security/secret-box');
  const unused = () => {
    throw new Error('the document needs no database, queue or source');
  };
  const api = await buildApi({
    context: {
      db: { query: unused, transaction: unused, close: unused },
      policy: policyOf(readConfig({})),
      secrets: createSecretBox([{ id: 'unused', key: randomBytes(32) }]),
      doorbell: { runsWaiting: unused, backfillWaiting: unused },
    },
    destinations: registry.destinations,
    destinationContext: {},
    models: [],
    checkQuery: unused,
    previewRows: unused,
    metrics: new Registry(),
    logger: pino({ level: 'silent' }),
    trustProxy: false,
    publicUrl: null,
    failedKeysPerMinute: 1,
    rateLimit: { perMinute: 1, perHour: 1 },
    readiness: unused,
    queueBoard: null,
    consoleDir: null,
    docsDir: null,
  });
  await api.ready();
  const document = api.swagger();
  await api.close();
  return document;
}
