import type { Api } from '../api.ts';
import { createAjv, typedQuery } from '../validation/validator.ts';

/**
 * Bodies and queries are checked against the schemas of their routes. Path parameters are not: the
 * hooks that look up what they name answer 403 and 404.
 */
export function validateWithSchemas(api: Api): void {
  const ajv = createAjv();
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
