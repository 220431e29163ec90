import { type TObject, Type } from 'typebox';
import { Refusal } from '../../domain/problem.ts';
import type { Api, Request } from '../api.ts';
import { madeLate } from '../validation/made-late.ts';
import { createAjv, typedQuery } from '../validation/validator.ts';

/**
 * Checks bodies and queries against the schemas of their routes. It does not check path parameters: the
 * hooks that load their records answer 403 and 404. A schema is compiled at the first request to its route.
 *
 * @param shared schemas that bodies refer to by `$id`
 * @param atOnce compiles before the server is ready; fails if a schema is not valid
 */
export function validateWithSchemas(api: Api, shared: readonly object[], atOnce: boolean): void {
  const ajv = createAjv();
  for (const schema of shared) ajv.addSchema(schema);
  api.setValidatorCompiler(({ schema, httpPart }) => {
    if (httpPart === 'params') return () => true;
    const { call, makeNow } = madeLate(() => {
      const validate = ajv.compile(schema as object);
      return (data: unknown) => {
        const value =
          httpPart === 'querystring'
            ? typedQuery(schema as object, data as Record<string, unknown>)
            : data;
        return validate(value) ? { value } : { error: validate.errors ?? [] };
      };
    });
    if (atOnce) makeNow();
    return call;
  });
}

/** Operations that existing clients of this API know. They ignore unknown fields and query parameters, as they always have. */
const lenient: ReadonlySet<string> = new Set([
  'listBatchExports',
  'createBatchExport',
  'retrieveBatchExport',
  'updateBatchExport',
  'deleteBatchExport',
  'backfillBatchExport',
  'pauseBatchExport',
  'unpauseBatchExport',
  'listBatchExportLogs',
  'listBatchExportRuns',
  'retrieveBatchExportRun',
  'listBatchExportRunLogs',
  'listTransformationConfigs',
  'createTransformationConfig',
  'retrieveTransformationConfig',
  'retrieveTransformationConfigFrontend',
  'updateTransformationConfig',
  'deleteTransformationConfig',
  'startTransformationJob',
  'rearrangeTransformationConfigs',
]);

/**
 * All other routes with a scope answer 400 to a field or query parameter that they do not know: a misspelled filter
 * must not look like one that matched everything, nor a misspelled option like one that is set. Call it before they are registered.
 */
export function refuseUnknownFields(api: Api): void {
  api.addHook('onRoute', (route) => {
    const { schema = {}, config } = route;
    if (config?.scope === undefined) return;
    if (lenient.has(schema.operationId?.replace(/OfOrganization$/, '') ?? '')) return;
    const query = (schema.querystring ?? Type.Object({})) as TObject;
    const querystring = { ...query, additionalProperties: false };
    const { body } = schema;
    if (body === undefined) route.preValidation = [route.preValidation ?? [], refuseFields].flat();
    route.schema = {
      ...schema,
      querystring,
      ...(body === undefined ? {} : { body: closed(body) }),
    };
  });
}

/** For an operation that takes no body. A body that is not an object is refused before. */
async function refuseFields({ body }: Request): Promise<void> {
  const [name] = Object.keys(body ?? {});
  if (name === undefined) return;
  const detail = 'This operation takes no fields. Send no body.';
  throw new Refusal({ code: 'invalid_input', detail, attr: name });
}

interface Schema {
  readonly type?: unknown;
  readonly properties?: Readonly<Record<string, object>>;
  readonly items?: unknown;
  readonly additionalProperties?: unknown;
}

/** The same schema, but it takes only the fields that it names, on each level. Schemas that it refers to stay as they are. */
function closed(schema: unknown): object {
  const { properties, items, additionalProperties = false } = schema as Schema;
  return {
    ...(schema as object),
    ...(items === undefined ? {} : { items: closed(items) }),
    ...(properties === undefined
      ? {}
      : {
          additionalProperties,
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, inner]) => [name, closed(inner)]),
          ),
        }),
  };
}
