import path from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { ownSteps } from '../../src/extensions/own-plugins/own-plugins.ts';
import { readConfig } from '../../src/foundation/config/config.ts';
import { checkQueryOf } from '../../src/main/api-process.ts';
import { destinationContextOf, registry } from '../../src/main/connectors.ts';
import { loadModels } from '../../src/main/models.ts';
import { openNotifications } from '../../src/main/notifications.ts';
import { policyOf } from '../../src/main/policy.ts';
import { previewsOf } from '../../src/main/preview-rows.ts';
import { statementSourcesOf } from '../../src/main/statement-sources.ts';
import { applyFilters } from '../../src/rows/query/property-filters.ts';
import { ConnectionLimit } from '../../src/rows/sources/index.ts';
import type { ApiOptions } from '../../src/service/api/options.ts';
import { checkReadiness } from '../../src/service/use-cases/installation/check-readiness.ts';
import type { Database } from '../../src/state/store/database/database.ts';
import { shopModelsAt } from './stranger-shop.ts';
import { testSecrets } from './test-secrets.ts';

/** Limits that no test meets by accident. */
export const plenty = { perMinute: 100_000, perHour: 1_000_000 };

/**
 * The options of an API in this process, everything in them real.
 *
 * @param shopUrl of the models besides `events`
 */
export function testApiOptions(
  db: Database,
  databaseUrl: string,
  changes: Partial<ApiOptions> = {},
  shopUrl = databaseUrl,
): ApiOptions {
  const config = readConfig({ ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1' });
  const sourced = [...loadModels(config), ...shopModelsAt(shopUrl)];
  const models = sourced.map(({ model }) => model);
  const context = {
    db,
    policy: policyOf(config),
    secrets: testSecrets(),
    doorbell: { runsWaiting() {}, backfillWaiting() {} },
    ownSteps,
  };
  return {
    context,
    destinations: registry.destinations,
    destinationContext: destinationContextOf(config),
    formats: registry.encoders,
    privateEndpoints: false,
    models,
    checkQuery: checkQueryOf(changes.models ?? models),
    applyFilters,
    ...previewsOf({
      config,
      models: sourced,
      context,
      databases: { sourceUrl: databaseUrl },
      sourceConnections: new ConnectionLimit(8),
    }),
    statements: statementSourcesOf(sourced, databaseUrl),
    metrics: new Registry(),
    logger: pino({ level: 'silent' }),
    trustProxy: 0,
    publicUrl: null,
    failedKeysPerMinute: 100_000,
    timeShare: { savedMs: Number.POSITIVE_INFINITY, savedPerSecondMs: 0 },
    rateLimit: plenty,
    storedBytesPerDay: 2 ** 50,
    readiness: () =>
      checkReadiness({
        databaseFault: async () => {
          await db.query('select 1');
          return null;
        },
        queueFault: async () => null,
        holdReason: async () => null,
      }),
    notifications: openNotifications(config),
    queueBoard: null,
    consoleDir: null,
    docsDir: path.resolve('dist/api-docs'),
    ...changes,
  };
}
