import { Ajv } from 'ajv';
import type { ApiClient } from './api-client.ts';

/** One operation of the OpenAPI document. */
export interface Operation {
  readonly id: string;
  readonly method: string;
  /** With parameters in braces. */
  readonly path: string;
  /** The scope that its key needs; null if it needs no key. */
  readonly scope: string | null;
  /** Another scope that is enough; null: none. */
  readonly otherScope: string | null;
  readonly parameters: readonly Parameter[];
  /** Schema of the JSON body; undefined if it takes none. */
  readonly body: JsonSchema | undefined;
  readonly statuses: readonly string[];
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly schema: JsonSchema;
}

export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly oneOf?: readonly JsonSchema[];
  readonly anyOf?: readonly JsonSchema[];
  readonly required?: readonly string[];
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly [keyword: string]: unknown;
}

interface RawOperation {
  readonly operationId?: string;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: JsonSchema }>> };
  readonly responses: Readonly<Record<string, { readonly content?: unknown }>>;
}

export interface ApiDocument {
  readonly raw: {
    readonly paths: Readonly<Record<string, Readonly<Record<string, RawOperation>>>>;
  };
  readonly operations: readonly Operation[];
  /** What is wrong with a body, by the schema of that status; null if nothing is. */
  faultOf(operation: Operation, status: number, body: unknown): string | null;
}

export async function readDocument(client: ApiClient): Promise<ApiDocument> {
  const raw = (await client.get('/api/openapi.json')).body as unknown as ApiDocument['raw'];
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });
  ajv.addSchema(raw as object, 'document');
  const operations = Object.entries(raw.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Operation => {
      const [required, other] = operation.security ?? [];
      return {
        id: operation.operationId ?? `${method} ${path}`,
        method: method.toUpperCase(),
        path,
        scope: required?.apiKey?.[0] ?? null,
        otherScope: other?.apiKey?.[0] ?? null,
        parameters: operation.parameters ?? [],
        body: operation.requestBody?.content['application/json']?.schema,
        statuses: Object.keys(operation.responses),
      };
    }),
  );
  return {
    raw,
    operations,
    faultOf({ path, method }, status, body) {
      const pointer = ['paths', path, method.toLowerCase(), 'responses', String(status)];
      const response = raw.paths[path]?.[method.toLowerCase()]?.responses[String(status)];
      if (!response) return `status ${status} is not documented`;
      if (!response.content) return null;
      const reference = [...pointer, 'content', 'application/json', 'schema'].map(escapePointer);
      const validate = ajv.compile({ $ref: `document#/${reference.join('/')}` });
      return validate(body) ? null : ajv.errorsText(validate.errors);
    },
  };
}

/** The path with its parameters filled in. */
export function fillPath(path: string, values: Readonly<Record<string, string | number>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? `{${name}}`));
}

function escapePointer(part: string): string {
  return encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
}
