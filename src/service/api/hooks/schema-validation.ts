import type { Api } from '../api.ts';
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
