import type { Api } from '../api.ts';
import { createAjv, typedQuery } from '../validation/validator.ts';

/**
 * Checks bodies and queries against the schemas of their routes. It does not check path parameters: the
 * hooks that load their records answer 403 and 404.
 *
 * @param shared schemas that bodies refer to by `$id`
 */
export function validateWithSchemas(api: Api, shared: readonly object[]): void {
  const ajv = createAjv();
  for (const schema of shared) ajv.addSchema(schema);
  api.setValidatorCompiler(({ schema, httpPart }) => {
    if (httpPart === 'params') return () => true;
    const validate = ajv.compile(schema as object);
    return (data: unknown) => {
      const value =
        httpPart === 'querystring'
          ? typedQuery(schema as object, data as Record<string, unknown>)
          : data;
      return validate(value) ? { value } : { error: validate.errors ?? [] };
    };
  });
}
