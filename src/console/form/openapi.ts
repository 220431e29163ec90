import { type Field, fieldsOf, type PropertySchema } from './fields.ts';

/** What the page reads out of the API's own description. */
export interface ApiDescription {
  readonly destinations: readonly DestinationForm[];
  readonly intervals: readonly string[];
  readonly models: readonly string[];
  /** Paths below an export that this server has: `schedule`, `test`, `preview`. */
  readonly extras: ReadonlySet<string>;
}

export interface DestinationForm {
  readonly type: string;
  readonly description: string;
  readonly fields: readonly Field[];
}

interface OpenApiDocument {
  readonly paths?: Readonly<Record<string, PathItem>>;
}

interface PathItem {
  readonly post?: {
    readonly requestBody?: {
      readonly content?: Readonly<Record<string, { readonly schema?: PropertySchema }>>;
    };
  };
}

const exportsPath = '/api/projects/{project_id}/batch_exports';

/** Reads the OpenAPI document. Parts that are not there are empty. */
export function readDescription(document: OpenApiDocument): ApiDescription {
  const paths = document.paths ?? {};
  const item = paths[exportsPath] ?? paths[`${exportsPath}/`];
  const body = item?.post?.requestBody?.content?.['application/json']?.schema?.properties ?? {};
  const words = (property: PropertySchema | undefined) => (property?.enum ?? []).map(String);
  return {
    destinations: (body.destination?.oneOf ?? []).map(destinationOf),
    intervals: words(body.interval),
    models: words(body.model),
    extras: new Set(
      Object.keys(paths).flatMap(
        (path) => /\/projects\/.*\/batch_exports\/\{[a-z_]+\}\/(\w+)\/?$/.exec(path)?.[1] ?? [],
      ),
    ),
  };
}

function destinationOf({ properties, title }: PropertySchema): DestinationForm {
  const type = properties?.type?.const ?? properties?.type?.enum?.[0] ?? title ?? '';
  const config = properties?.config ?? {};
  return {
    type: String(type),
    description: config.description ?? '',
    fields: fieldsOf(config),
  };
}
