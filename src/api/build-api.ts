import fastify from 'fastify';
import type { Api } from './api.ts';
import { destinationRules } from './destination-rules.ts';
import { organizationFamily, projectFamily } from './families.ts';
import type { ApiOptions, Deps } from './options.ts';
import { requireAccess, requireKeys } from './plugins/authentication.ts';
import { answerErrors } from './plugins/errors.ts';
import { takeJsonBodies } from './plugins/json-body.ts';
import { noteMethods, refuseOtherMethods } from './plugins/methods.ts';
import { describeApi } from './plugins/openapi.ts';
import { sendHeaders } from './plugins/response-headers.ts';
import { validateWithSchemas } from './plugins/schema-validation.ts';
import { batchExportRoutes } from './routes/batch-exports.ts';
import { fastifyOptions } from './server-options.ts';

/** The HTTP interface, ready to listen or to be injected into. Fails where a schema is not valid. */
export async function buildApi(options: ApiOptions): Promise<Api> {
  const api: Api = fastify(fastifyOptions(options));
  const { context, destinations, destinationContext, models, checkQuery } = options;
  const deps: Deps = {
    ...options,
    rules: { models, checkQuery, ...destinationRules(destinations, destinationContext) },
  };

  answerErrors(api);
  sendHeaders(api);
  requireKeys(api, context.db);
  requireAccess(api, context.db);
  takeJsonBodies(api);
  validateWithSchemas(api);
  const methods = noteMethods(api);
  await describeApi(api);

  for (const family of [organizationFamily, projectFamily]) {
    api.register(async (scope: Api) => batchExportRoutes(scope, deps, family), {
      prefix: `${family.prefix}/batch_exports`,
    });
  }
  api.register(async (scope: Api) => refuseOtherMethods(scope, methods));
  await api.ready();
  return api;
}
