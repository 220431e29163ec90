import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Config } from '../foundation/config/config.ts';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import { SluiceError } from '../foundation/domain/errors.ts';
import { readFileSettings } from '../foundation/domain/file-settings.ts';
import { hideValues } from '../foundation/domain/hide-values.ts';
import type { Model } from '../foundation/domain/model.ts';
import type { DestinationContext } from '../rows/destinations/destination.ts';
import { BoundedMap } from '../rows/query/bounded-map.ts';
import {
  describeComputed,
  type ParsedQuery,
  parseQuery,
  schemaOf,
} from '../rows/query/parse-query.ts';
import { applyFilters } from '../rows/query/property-filters.ts';
import { findTenant } from '../rows/sources/index.ts';
import { buildApi } from '../service/api/build-api.ts';
import type { DescribedRows, DescribeQuery, FindTable } from '../service/api/options.ts';
import type { Context } from '../service/use-cases/context.ts';
import { type ExportRules, modelGone } from '../service/use-cases/exports/rules.ts';
import type { FindTenants } from '../service/use-cases/tenants/change-tenants.ts';
import { createDashboard, type RunOfJob } from '../state/queue/dashboard.ts';
import type { Sql } from '../state/store/database/database.ts';
import { findNamedRuns } from '../state/store/runs/runs.ts';
import { findProject, findTenantKey } from '../state/store/tenants/tenants.ts';
import {
  destinationContextOf,
  destinationOf,
  type Registry,
  registry,
  tablesOf,
} from './connectors.ts';
import type { Foundation } from './foundation.ts';
import type { SourceOf } from './models.ts';
import { openNotifications } from './notifications.ts';
import { previewsOf } from './preview-rows.ts';
import { readinessOf } from './readiness.ts';
import { watchService } from './service-metrics.ts';
import { statementSourcesOf } from './statement-sources.ts';
import { watchSources } from './watch-sources.ts';
import { watchWorkers } from './watch-workers.ts';
import { serveWorkerHealth } from './worker-health.ts';

interface ApiProcess {
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

/** Connects the query room to the API: each refusal names the construct and its position. */
export function checkQueryOf(models: readonly Model[]): ExportRules['checkQuery'] {
  return (dslQuery, modelName, transformed) => {
    const model = models.find(({ name }) => name === modelName);
    if (!model) return { ok: false, problems: [modelGone(modelName)] };
    const parsed = parseQuery(dslQuery, model);
    if (!('ok' in parsed)) return { ok: false, problems: parsed.problems };
    const detail = transformed ? describeComputed(parsed.ok.outputs) : null;
    return detail === null
      ? {
          ok: true,
          schema: schemaOf(parsed.ok, model),
          missingKeys: missingKeysOf(parsed.ok, model),
        }
      : { ok: false, problems: [{ code: 'invalid_input', detail, attr: 'dsl_query' }] };
  };
}

function missingKeysOf({ outputs }: ParsedQuery, { keyColumns }: Model): readonly string[] {
  const hasKey = (key: string) =>
    outputs.some(({ expression }) => expression.kind === 'column' && expression.name === key);
  return keyColumns.filter((key) => !hasKey(key));
}

/** A source that takes longer has not answered. */
const patienceMs = 10_000;

export function findTenantsOf(models: readonly SourcedModel[], sourceUrl: string): FindTenants {
  return (tenantKey) =>
    Promise.all(
      models.map(({ model, sourceUrl: own }) =>
        findTenant(own ?? sourceUrl, model, tenantKey, AbortSignal.timeout(patienceMs)).catch(
          () => null,
        ),
      ),
    );
}

/** Facts of runs that the queue dashboard shows. It reads them when it is viewed, so a run costs nothing more. */
export async function findRunsOfJobs(
  {
    config,
    context,
  }: {
    readonly config: Pick<Config, 'PUBLIC_URL'>;
    readonly context: { readonly db: Sql };
  },
  runIds: readonly string[],
): Promise<readonly RunOfJob[]> {
  const page = `${config.PUBLIC_URL?.replace(/\/+$/, '') ?? ''}/console/`;
  return (await findNamedRuns(context.db, runIds)).map(({ exportId, teamId, ...run }) => ({
    ...run,
    error: run.error && hideValues(run.error),
    link: `${page}#/${teamId}/exports/${exportId}/runs/${run.id}`,
  }));
}

/** Characters of the requests that are remembered as described. */
const keptCharacters = 200_000;
/** The source's tables may change. */
const keptMs = 300_000;
/** The time in which a source that did not answer is not asked again: each request would wait for it. */
const silentMs = 5_000;

/** Remembers what can run, and sources that do not answer. @param patienceMs for a request @param now a steady clock, in ms */
export function describeQueryOf(
  sourceOf: SourceOf,
  tenantKeyOf: (teamId: number) => Promise<string>,
  patienceMs = 5_000,
  now = () => performance.now(),
): DescribeQuery {
  const descriptions = new BoundedMap<
    string,
    { readonly rows: DescribedRows; readonly at: number }
  >(keptCharacters);
  const silentSince = new Map<string, number>();
  return async (request, inSlot, signal) => {
    const { teamId, ...rest } = request;
    const key = JSON.stringify(rest);
    const described = descriptions.get(key);
    if (described && now() - described.at < keptMs) return described.rows;
    const { model } = request;
    if (now() - (silentSince.get(model) ?? Number.NEGATIVE_INFINITY) < silentMs) {
      throw new SluiceError('source.unavailable', 'it did not answer a few seconds ago');
    }
    return inSlot(async () => {
      const patience = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
      try {
        const query = { ...rest, tenantKey: await tenantKeyOf(teamId) };
        const { columns, warnings } = await sourceOf(model).describe(query, patience);
        const rows = {
          columns: columns.map(({ name, sourceType }) => ({ name, sourceType })),
          warnings,
        };
        const size = key.length + JSON.stringify(rows).length;
        descriptions.set(key, { rows, at: now() }, size);
        silentSince.delete(model);
        return rows;
      } catch (error) {
        signal.throwIfAborted();
        const isSilent = patience.aborted || isTransient(error);
        if (isSilent) silentSince.set(model, now());
        throw patience.aborted ? new SluiceError('source.timeout') : error;
      }
    });
  };
}

const isTransient = (error: unknown) => error instanceof SluiceError && error.spec.retryable;
