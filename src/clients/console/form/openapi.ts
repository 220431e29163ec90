import { isRecord } from '../json.ts';
import type { Capabilities } from '../api-types.ts';
import { type Field, fieldsOf, type PropertySchema } from './fields.ts';
import { inPlainWords } from './setting-words.ts';

/** The parts of the API's OpenAPI document that the page uses, and what this installation has of them. */
export interface ApiDescription {
  /** Null: not known, so all is offered that the document has. */
  readonly installation: Capabilities | null;
  readonly destinations: readonly DestinationForm[];
  /** The settings of an export that are one value. */
  readonly settings: readonly SettingField[];
  readonly intervals: readonly string[];
}

export interface DestinationForm {
  readonly type: string;
  readonly description: string;
  readonly fields: readonly Field[];
}

export interface SettingField extends Field {
  /** True if it is for days and weeks only. */
  readonly isLocal: boolean;
}

interface OpenApiDocument {
  readonly paths?: Readonly<Record<string, object>>;
  readonly components?: object;
}

interface PathItem {
  readonly post?: {
    readonly requestBody?: {
      readonly content?: Readonly<Record<string, { readonly schema?: PropertySchema }>>;
    };
  };
}

const exportsPath = '/api/projects/{project_id}/batch_exports';

/** Reads the OpenAPI document. Missing parts are empty. */
export function readDescription(
  document: OpenApiDocument,
  installation: Capabilities | null = null,
): ApiDescription {
  const item = document.paths?.[exportsPath] as PathItem | undefined;
  const body = item?.post?.requestBody?.content?.['application/json']?.schema?.properties ?? {};
  const words = (property: PropertySchema | undefined) => (property?.enum ?? []).map(String);
  return {
    installation,
    destinations: (body.destination?.oneOf ?? []).map((one) => destinationOf(one, document)),
    settings: settingsOf(body),
    intervals: words(body.interval),
  };
}

function settingsOf(properties: Readonly<Record<string, PropertySchema>>): readonly SettingField[] {
  const settings = Object.entries(properties).filter(([, property]) => property['x-setting']);
  return fieldsOf({ properties: Object.fromEntries(settings) }).map((field) => ({
    ...inPlainWords(field),
    isLocal: properties[field.name]?.['x-setting'] === 'local',
  }));
}

/** The choices of a form: those of this installation, and those that an export already uses. */
export function offered(
  choices: readonly string[],
  here: readonly string[] | undefined,
  current: string,
): readonly string[] {
  return here ? choices.filter((choice) => here.includes(choice) || choice === current) : choices;
}

/** The part itself, or what its `$ref` names. */
const resolve = (part: PropertySchema, document: object): PropertySchema =>
  part.$ref === undefined ? part : ((lookUp(part.$ref, document) ?? {}) as PropertySchema);

function lookUp(ref: string, document: object): unknown {
  return ref
    .replace(/^#\//, '')
    .split('/')
    .reduce<unknown>((part, name) => (isRecord(part) ? part[name] : undefined), document);
}

function destinationOf(branch: PropertySchema, document: object): DestinationForm {
  const { properties, title } = resolve(branch, document);
  const type = properties?.type?.const ?? properties?.type?.enum?.[0] ?? title ?? '';
  const config = resolve(properties?.config ?? {}, document);
  return {
    type: String(type),
    description: config.description ?? '',
    fields: fieldsOf(config).map(inPlainWords),
  };
}
