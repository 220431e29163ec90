import fastify from 'fastify';
import type { Api } from './api.ts';
import { destinationRules } from './destination-rules.ts';
import { type Family, organizationFamily, projectFamily } from './families.ts';
import { joinableContext } from './joinable-context.ts';
import type { ApiOptions, Deps } from './options.ts';
import { requireAccess, requireKeys } from './plugins/authentication.ts';
import { serveConsole } from './plugins/console-page.ts';
import { answerErrors } from './plugins/errors.ts';
import { honourIdempotencyKeys } from './plugins/idempotency.ts';
import { takeJsonBodies } from './plugins/json-body.ts';
import { noteMethods, refuseOtherMethods } from './plugins/methods.ts';
import { describeApi } from './plugins/openapi.ts';
import { mountQueueBoard } from './plugins/queue-board.ts';
import { limitRequests } from './plugins/rate-limit.ts';
import { measureRequests } from './plugins/request-metrics.ts';
import { sendHeaders } from './plugins/response-headers.ts';
import { validateWithSchemas } from './plugins/schema-validation.ts';
import { PreviewPlaces } from './preview-places.ts';
import { backfillRoutes } from './routes/backfills.ts';
import { batchExportRoutes } from './routes/batch-exports.ts';
import { healthRoutes } from './routes/health.ts';
import { insightRoutes } from './routes/insights.ts';
import { logRoutes } from './routes/logs.ts';
import { pluginRoutes } from './routes/plugins.ts';
import { runRoutes } from './routes/runs.ts';
import { transformationConfigRoutes } from './routes/transformation-configs.ts';
import { destinationSchemas } from './schemas/batch-export.ts';
import { fastifyOptions } from './server-options.ts';

type Routes = (api: Api, deps: Deps, family: Family) => void;

/** The HTTP interface, ready to listen or to be injected into. Fails where a schema is not valid. */
export async function buildApi(options: ApiOptions): Promise<Api> {
  const api: Api = fastify(fastifyOptions(options));
  const { destinations, destinationContext, models, checkQuery, queueBoard } = options;
  const joinable = joinableContext(options.context);
  const { context } = joinable;
  const deps: Deps = {
    ...options,
    context,
    previews: new PreviewPlaces(),
    rules: { models, checkQuery, ...destinationRules(destinations, destinationContext) },
  };

  const shared = destinationSchemas(destinations);

  answerErrors(api);
  sendHeaders(api);
  requireKeys(api, context.db);
  limitRequests(api, context.db, options.rateLimit);
  requireAccess(api, context.db);
  takeJsonBodies(api);
  validateWithSchemas(api, shared);
  honourIdempotencyKeys(api, joinable);
  measureRequests(api, options.metrics);
  const methods = noteMethods(api);
  await describeApi(api, shared);
  serveConsole(api, options.consoleDir);

  healthRoutes(api, deps);
  if (queueBoard) mountQueueBoard(api, context.db, queueBoard);
  for (const family of [organizationFamily, projectFamily]) {
    const exports = `${family.prefix}/batch_exports`;
    const add = (routes: Routes, prefix: string) =>
      api.register(async (scope: Api) => routes(scope, deps, family), { prefix });
    add(batchExportRoutes, exports);
    add(backfillRoutes, exports);
    add(insightRoutes, exports);
    add(runRoutes, `${exports}/:batch_export_id/runs`);
    add(logRoutes, `${exports}/:batch_export_id`);
  }
  api.register(async (scope: Api) => transformationConfigRoutes(scope, deps), {
    prefix: `${projectFamily.prefix}/pipeline_transformation_configs`,
  });
  api.register(async (scope: Api) => pluginRoutes(scope, deps), {
    prefix: `${organizationFamily.prefix}/plugins`,
  });
  api.register(async (scope: Api) => refuseOtherMethods(scope, methods));
  await api.ready();
  return api;
}
