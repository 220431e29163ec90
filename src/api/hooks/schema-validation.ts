import type { Api } from '../api.ts';
import { createAjv, typedQuery } from '../validation/validator.ts';

/**
 * Bodies and queries are checked against the schemas of their routes. Path parameters are not: the
 * hooks that look up what they name answer 403 and 404.
 *
 * @param shared schemas that bodies refer to by their `$id`
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
