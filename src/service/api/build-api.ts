import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import fastify, { type FastifyHttpOptions, LogController, type RawServerDefault } from 'fastify';
import { notFound } from '../../foundation/domain/problem.ts';
import { findKnownHashes } from '../../state/store/tenants/api-keys.ts';
import type { Context } from '../use-cases/context.ts';
import { causeRoutes } from './admin/causes.ts';
import { keyRoutes, tenantRoutes } from './admin/tenants.ts';
import type { Api, Reply, Request } from './api.ts';
import { backfillRoutes } from './backfills/routes.ts';
import { destinationRules } from './batch-exports/destination-rules.ts';
import { batchExportRoutes } from './batch-exports/routes.ts';
import { destinationSchemas } from './batch-exports/schema.ts';
import { Connections, slowRequests, usualConnections } from './connections.ts';
import { coverageRoutes } from './coverage/routes.ts';
import { answerErrors, sendError } from './errors.ts';
import { healthRoutes } from './health/routes.ts';
import {
  knowAddress,
  measureRequests,
  noteMethods,
  refuseOtherMethods,
  sendHeaders,
  spareBytes,
} from './hooks/answers.ts';
import { FailedKeys, requireAccess, requireKeys } from './hooks/authentication.ts';
import { refuseUnknownFields, takeJsonBodies, validateWithSchemas } from './hooks/bodies.ts';
import { honourIdempotencyKeys } from './hooks/idempotency.ts';
import {
  boundHeldBytes,
  createRequestLimit,
  limitRequests,
  limitStoredBytes,
} from './hooks/limits.ts';
import { describeApi } from './hooks/openapi.ts';
import { hideFromOperators, requireOperator } from './hooks/operators.ts';
import { mountQueueBoard, serveConsole, serveDocs } from './hooks/pages.ts';
import { PreviewSlots } from './insights/preview-slots.ts';
import { previewRoutes } from './insights/preview.ts';
import { insightRoutes } from './insights/routes.ts';
import { unsavedRoutes } from './insights/unsaved.ts';
import { capabilityRoutes, meRoutes, operatorMeRoutes } from './me/routes.ts';
import { notificationRoutes } from './notifications/routes.ts';
import { offboardingRoutes } from './offboardings/routes.ts';
import {
  type Family,
  installationFamily,
  organizationFamily,
  projectFamily,
} from './operations.ts';
import type { ApiOptions, Deps } from './options.ts';
import { renamedPath, renameValues } from './posthog/names.ts';
import { posthogRoutes } from './posthog/routes.ts';
import { logRoutes, runRoutes } from './runs/routes.ts';
import {
  certificateRoutes,
  deliveryRecordRoutes,
  signingKeyRoutes,
  statementRoutes,
} from './statements/routes.ts';
import {
  pluginRoutes,
  projectPluginRoutes,
  transformationConfigRoutes,
} from './transformations/routes.ts';
import { exportUsageRoutes, usageRoutes } from './usage/routes.ts';

const exportRoutes: readonly ((api: Api, family: Family, deps: Deps) => void)[] = [
  ...[batchExportRoutes, backfillRoutes, insightRoutes, unsavedRoutes, posthogRoutes],
  ...[previewRoutes, coverageRoutes, statementRoutes, certificateRoutes],
];

/** A tenth of the time, once 10 seconds are used up. */
const usualShare = { savedMs: 10_000, savedPerSecondMs: 100 };

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
  const add = (prefix: string, routes: (scope: Api) => void) =>
    api.register(async (scope: Api) => routes(scope), { prefix });
  add('', (scope) => {
    requireOperator(scope, operators);
    offboardingRoutes(scope);
  });
  add('/api/admin', (scope) => {
    operatorMeRoutes(scope);
    tenantRoutes(scope, options);
    usageRoutes(scope);
    keyRoutes(scope);
    causeRoutes(scope);
  });
  if (queueBoard) mountQueueBoard(api, operators, queueBoard);
  for (const family of [organizationFamily, projectFamily]) {
    const exports = `${family.prefix}/batch_exports`;
    for (const routes of exportRoutes) add(exports, (scope) => routes(scope, family, deps));
    add(`${family.prefix}/delivery_record`, (scope) => deliveryRecordRoutes(scope, family));
    add(`${family.prefix}/usage`, (scope) => exportUsageRoutes(scope, family));
    add(`${exports}/:batch_export_id/runs`, (scope) => runRoutes(scope, family, deps));
    add(`${exports}/:batch_export_id`, (scope) => logRoutes(scope, family, deps));
  }
  for (const family of [installationFamily, organizationFamily, projectFamily]) {
    const targets = `${family.prefix}/notification_targets`;
    add(targets, (scope) => notificationRoutes(scope, family, deps));
  }
  add('/api/me', meRoutes);
  add('/api/capabilities', (scope) => capabilityRoutes(scope, deps));
  add(`${projectFamily.prefix}/pipeline_transformation_configs`, transformationConfigRoutes);
  add(`${organizationFamily.prefix}/plugins`, (scope) => pluginRoutes(scope, deps));
  add(`${projectFamily.prefix}/plugins`, projectPluginRoutes);
  add('', (scope) => refuseOtherMethods(scope, methods));
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
