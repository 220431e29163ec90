import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { buildApi } from '../dist/service/api/build-api.js';
import { readConfig } from '../dist/foundation/config/config.js';
import { eventsModel } from '../dist/foundation/domain/events-model.js';
import { registry } from '../dist/main/connectors.js';
import { policyOf } from '../dist/main/policy.js';
import { createSecretBox } from '../dist/foundation/security/secret-box.js';

/** The document of an API that serves no request: it opens no database and no queue. */
export async function readDocument() {
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
    models: [eventsModel],
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
