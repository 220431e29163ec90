import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readFileSettings } from '../foundation/domain/file-settings.ts';
import type { DestinationContext } from '../rows/destinations/destination.ts';
import { applyFilters } from '../rows/query/property-filters.ts';
import { buildApi } from '../service/api/build-api.ts';
import type { FindTable } from '../service/api/options.ts';
import type { Context } from '../service/use-cases/context.ts';
import { createDashboard } from '../state/queue/dashboard.ts';
import { findProject, findTenantKey } from '../state/store/tenants/tenants.ts';
import { checkQueryOf } from './checks.ts';
import {
  destinationContextOf,
  destinationOf,
  type Registry,
  registry,
  tablesOf,
} from './connectors.ts';
import { describeQueryOf } from './describe-query.ts';
import { findTenantsOf } from './find-tenants.ts';
import type { Foundation } from './foundation.ts';
import { openNotifications } from './notifications.ts';
import { previewsOf } from './preview-rows.ts';
import { readinessOf } from './readiness.ts';
import { findRunsOfJobs } from './runs-of-jobs.ts';
import { statementSourcesOf } from './statement-sources.ts';
import { watchService } from './service-metrics.ts';
import { watchSources } from './watch-sources.ts';
import { watchWorkers } from './watch-workers.ts';
import { serveWorkerHealth } from './worker-health.ts';

export interface ApiProcess {
  /** Where it serves: `http://127.0.0.1:8000`. */
  readonly address: string;
  close(): Promise<void>;
}

export async function startApi(foundation: Foundation): Promise<ApiProcess> {
  const { config, context, logger, metrics, producer } = foundation;
  const models = foundation.models.map(({ model }) => model);
  watchService(metrics, context.db, foundation.outages, config.VERIFY_SCHEDULE !== null);
  const sources = watchSources(foundation);
  const notifications = openNotifications(config);
  const readiness = readinessOf(foundation, sources.fault, true);
  const tenantKeyOf = (teamId: number) => findTenantKey(context.db, teamId);
  const previews = previewsOf(foundation);
  const destinationContext = destinationContextOf(config);
  const api = await buildApi({
    context,
    destinations: registry.destinations,
    destinationContext,
    formats: registry.encoders,
    privateEndpoints: config.ALLOWED_PRIVATE_ENDPOINTS.length > 0,
    models,
    checkQuery: checkQueryOf(models),
    applyFilters,
    previewRows: previews.previewRows,
    compareRows: previews.compareRows,
    describeQuery: describeQueryOf(previews.sourceOf, tenantKeyOf),
    findTenants: findTenantsOf(foundation.models, foundation.databases.sourceUrl),
    findTable: findTableOf(registry, destinationContext, context),
    statements: statementSourcesOf(foundation.models, foundation.databases.sourceUrl),
    metrics: metrics.registry,
    logger,
    trustProxy: config.TRUST_PROXY,
    publicUrl: config.PUBLIC_URL,
    failedKeysPerMinute: 60,
    storedBytesPerDay: config.MAX_STORED_MIB_PER_DAY * 2 ** 20,
    rateLimit: {
      perMinute: config.RATE_LIMIT_PER_MINUTE,
      perHour: 10 * config.RATE_LIMIT_PER_MINUTE,
    },
    readiness,
    notifications,
    queueBoard: createDashboard(producer, '/admin/queues', (runIds) =>
      findRunsOfJobs(foundation, runIds),
    ),
    consoleDir: findBuilt('console', 'assets'),
    docsDir: findBuilt('api-docs', 'docs'),
  });
  const metricsPort =
    config.METRICS_PORT === null
      ? null
      : await serveWorkerHealth({
          host: config.HOST,
          port: config.METRICS_PORT,
          metrics: metrics.registry,
          readiness,
        });
  const workers = watchWorkers(foundation, notifications);
  const address = await api.listen({ port: config.PORT, host: config.HOST });
  return {
    address,
    async close() {
      await workers.close();
      await api.close();
      await metricsPort?.close();
      await sources.close();
    },
  };
}

/** A folder that the build wrote, beside this file's folder in dist; null if it has not `part`. */
function findBuilt(name: string, part: string): string | null {
  const folder = fileURLToPath(new URL(`../${name}`, import.meta.url));
  return existsSync(`${folder}/${part}`) ? folder : null;
}

/** The folder of an export without an id yet cannot have one. */
const noId = '00000000-0000-0000-0000-000000000000';

/** Looks for a table at the place that a new export's is to have. */
function findTableOf(
  known: Registry,
  context: DestinationContext,
  { db }: Pick<Context, 'db'>,
): FindTable {
  return async ({ teamId, model, type, config }, signal) => {
    // A folder with the id of the export is its own.
    if (readFileSettings(config).prefix.includes('{batch_export_id}')) return null;
    const table = tablesOf(known).tableOf({ exportId: noId, model, destination: { type, config } });
    const project = await findProject(db, teamId);
    if (!table || !project) return null;
    const { externalId } = project;
    const destination = destinationOf(known, type).open(config, context, { externalId });
    try {
      const existing = await table.findExisting(destination, signal);
      return existing && { ...existing, folder: table.folder };
    } finally {
      await destination.close();
    }
  };
}
