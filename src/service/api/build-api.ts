import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import fastify, { type FastifyHttpOptions, LogController, type RawServerDefault } from 'fastify';
import { notFound } from '../../foundation/domain/problem.ts';
import { findKnownHashes } from '../../state/store/tenants/api-keys.ts';
import type { Context } from '../use-cases/context.ts';
import { causeRoutes } from './admin/causes.ts';
import { operatorMeRoutes } from './admin/me.ts';
import { keyRoutes, tenantRoutes } from './admin/tenants.ts';
import { usageRoutes } from './admin/usage.ts';
import type { Api, Reply, Request } from './api.ts';
import { backfillRoutes } from './backfills/routes.ts';
import { destinationRules } from './batch-exports/destination-rules.ts';
import { batchExportRoutes } from './batch-exports/routes.ts';
import { destinationSchemas } from './batch-exports/schema.ts';
import { capabilityRoutes } from './capabilities/routes.ts';
import { Connections, slowRequests, usualConnections } from './connections.ts';
import { coverageRoutes } from './coverage/routes.ts';
import { healthRoutes } from './health/routes.ts';
import { requireAccess, requireKeys } from './hooks/authentication.ts';
import { mountQueueBoard, serveConsole, serveDocs } from './hooks/pages.ts';
import { answerErrors, sendError } from './hooks/errors.ts';
import { FailedKeys } from './hooks/failed-keys.ts';
import { boundHeldBytes } from './hooks/held-bytes.ts';
import { honourIdempotencyKeys } from './hooks/idempotency.ts';
import { takeJsonBodies, validateWithSchemas } from './hooks/read-body.ts';
import { noteMethods, refuseOtherMethods, sendHeaders } from './hooks/response-headers.ts';
import { describeApi } from './hooks/openapi.ts';
import { requireOperator } from './hooks/operator-access.ts';
import { hideFromOperators } from './hooks/operator-looks.ts';
import { knowAddress } from './hooks/public-address.ts';
import { createRequestLimit, limitRequests } from './hooks/rate-limit.ts';
import { measureRequests } from './hooks/observe-requests.ts';
import { refuseUnknownFields } from './hooks/unknown-fields.ts';
import { spareBytes } from './hooks/spared-bytes.ts';
import { limitStoredBytes } from './hooks/stored-bytes.ts';
import { previewRoutes } from './insights/preview.ts';
import { PreviewSlots } from './insights/preview-slots.ts';
import { insightRoutes } from './insights/routes.ts';
import { unsavedRoutes } from './insights/unsaved.ts';
import { logRoutes } from './logs/routes.ts';
import { meRoutes } from './me/routes.ts';
import { notificationRoutes } from './notifications/routes.ts';
import {
  type Family,
  installationFamily,
  organizationFamily,
  projectFamily,
} from './operations.ts';
import type { ApiOptions, Deps } from './options.ts';
import { offboardingRoutes } from './offboardings/routes.ts';
import { pluginRoutes, projectPluginRoutes } from './plugins/routes.ts';
import { renamedPath, renameValues } from './posthog/names.ts';
import { posthogRoutes } from './posthog/routes.ts';
import { runRoutes } from './runs/routes.ts';
import { exportUsageRoutes } from './usage/routes.ts';
import { certificateRoutes, deliveryRecordRoutes } from './statements/documents.ts';
import { signingKeyRoutes, statementRoutes } from './statements/routes.ts';
import { transformationConfigRoutes } from './transformations/routes.ts';

type Routes = (api: Api, family: Family, deps: Deps) => void;

/** A tenth of the time, once 10 seconds are used up. */
const usualShare = { savedMs: 10_000, savedPerSecondMs: 100 };

/** Builds the HTTP interface, ready to listen or to inject requests. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the order of the hooks is what it does
export async function buildApi(options: ApiOptions): Promise<Api> {
  const api: Api = fastify(fastifyOptions(options));
  const { context, ...others } = options;
  const { destinations, destinationContext, models, checkQuery, queueBoard } = options;
  const atOnce = options.compilesAtOnce ?? false;
  const timeShare = options.timeShare ?? usualShare;
  const deps: Deps = {
    ...others,
    previews: new PreviewSlots(timeShare),
    tests: new PreviewSlots(),
    searches: new PreviewSlots({ ...timeShare, perTenant: 1, inAll: 2 }),
    // Each may wait for a receiver. A mail server would take any number of them for spam.
    notificationTests: new PreviewSlots({ savedMs: 30_000, savedPerSecondMs: 100 }),
    // They compute in this process: two of them take half of its time.
    trials: new PreviewSlots({ ...timeShare, perTenant: 1, inAll: 2 }),
    sandboxes: new PreviewSlots({ perTenant: 1, inAll: 2, waitingPerTenant: 2, waitingInAll: 6 }),
    rules: {
      models,
      checkQuery,
      applyFilters: options.applyFilters,
      ...destinationRules(destinations, destinationContext),
    },
  };

  const { db } = context;
  const failures = new FailedKeys(options.failedKeysPerMinute, async (hashes) => {
    const knownHashes = await findKnownHashes(db, hashes);
    return new Set(knownHashes.map((hash) => hash.toString('hex')));
  });
  const takeRequest = createRequestLimit(db, options.rateLimit);
  const operators = { db, failures, takeRequest, publicUrl: options.publicUrl };

  const shared = destinationSchemas(destinations);

  serveInTurn(api, options);
  // Before anything refuses a request.
  sendHeaders(api);
  answerErrors(api);
  provideContext(api, context);
  knowAddress(api, options);
  requireKeys(api, { db, failures });
  boundHeldBytes(api, options.held);
  spareBytes(api);
  limitRequests(api, takeRequest);
  requireAccess(api, db);
  hideFromOperators(api);
  takeJsonBodies(api);
  const modelNames = models.map(({ name }) => name);
  validateWithSchemas(api, shared, modelNames, atOnce);
  limitStoredBytes(api, db, options.storedBytesPerDay);
  honourIdempotencyKeys(api);
  measureRequests(api, options.metrics);
  renameValues(api);
  refuseUnknownFields(api);
  const methods = noteMethods(api);
  await describeApi(api, shared, atOnce);
  serveDocs(api, options.docsDir);
  serveConsole(api, options.consoleDir);

  healthRoutes(api, options, operators);
  signingKeyRoutes(api);
  api.register(async (scope: Api) => {
    requireOperator(scope, operators);
    offboardingRoutes(scope);
  });
  api.register(
    async (scope: Api) => {
      operatorMeRoutes(scope);
      tenantRoutes(scope, options);
      usageRoutes(scope);
      keyRoutes(scope);
      causeRoutes(scope);
      scope.register(async (inner: Api) => notificationRoutes(inner, installationFamily, deps), {
        prefix: '/notification_targets',
      });
    },
    { prefix: '/api/admin' },
  );
  if (queueBoard) mountQueueBoard(api, operators, queueBoard);
  for (const family of [organizationFamily, projectFamily]) {
    const exports = `${family.prefix}/batch_exports`;
    const add = (routes: Routes, prefix: string) =>
      api.register(async (scope: Api) => routes(scope, family, deps), { prefix });
    add(batchExportRoutes, exports);
    add(backfillRoutes, exports);
    add(insightRoutes, exports);
    add(unsavedRoutes, exports);
    add(posthogRoutes, exports);
    add(previewRoutes, exports);
    add(coverageRoutes, exports);
    add(statementRoutes, exports);
    add(certificateRoutes, exports);
    add(deliveryRecordRoutes, `${family.prefix}/delivery_record`);
    add(exportUsageRoutes, `${family.prefix}/usage`);
    add(runRoutes, `${exports}/:batch_export_id/runs`);
    add(logRoutes, `${exports}/:batch_export_id`);
    add(notificationRoutes, `${family.prefix}/notification_targets`);
  }
  api.register(async (scope: Api) => meRoutes(scope), { prefix: '/api/me' });
  api.register(async (scope: Api) => capabilityRoutes(scope, deps), {
    prefix: '/api/capabilities',
  });
  const steps = `${projectFamily.prefix}/pipeline_transformation_configs`;
  api.register(async (scope: Api) => transformationConfigRoutes(scope), { prefix: steps });
  api.register(async (scope: Api) => pluginRoutes(scope, deps), {
    prefix: `${organizationFamily.prefix}/plugins`,
  });
  api.register(async (scope: Api) => projectPluginRoutes(scope), {
    prefix: `${projectFamily.prefix}/plugins`,
  });
  api.register(async (scope: Api) => refuseOtherMethods(scope, methods));
  await api.ready();
  return api;
}

/** One request of a connection after the other. */
function serveInTurn(api: Api, { connections: given, trustProxy }: ApiOptions): void {
  const limits = given ?? usualConnections;
  const connections = new Connections(
    trustProxy > 0 ? { ...limits, perAddress: limits.inAll } : limits,
  );
  connections.watch(api.server);
  api.addHook('onRequest', ({ raw }, reply, done) => connections.enter(raw, reply.raw, done));
  api.addHook('onSend', ({ raw }, _reply, payload, done) => {
    connections.sent(raw);
    done(null, payload);
  });
  api.addHook('preClose', async () => connections.end());
}

function provideContext(api: Api, context: Context): void {
  // The hook sets it before anything reads it.
  api.decorateRequest('context', null as unknown as Context);
  api.addHook('onRequest', async (request) => {
    request.context = context;
  });
}

/** Options of the server itself. */
function fastifyOptions({ logger, trustProxy }: ApiOptions) {
  return {
    loggerInstance: logger,
    // The address of a client is the one that the outermost of these proxies saw.
    trustProxy: trustProxy > 0 ? (_address: string, hop: number) => hop < trustProxy : false,
    bodyLimit: 1_048_576,
    connectionTimeout: 0,
    http: slowRequests,
    rewriteUrl: ({ url = '/' }: IncomingMessage) => renamedPath(url),
    requestTimeout: slowRequests.requestTimeout,
    keepAliveTimeout: 72_000,
    genReqId: () => randomUUID(),
    requestIdHeader: false as const,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    logController: new LogController({ disableRequestLogging: true }),
    // A path that cannot be decoded does not reach the hooks.
    frameworkErrors: (_error: Error, request: Request, reply: Reply) => {
      sendError(request, reply, notFound());
    },
    return503OnClosing: true,
    forceCloseConnections: 'idle' as const,
  } satisfies FastifyHttpOptions<RawServerDefault>;
}
