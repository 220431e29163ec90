import { Ajv } from 'ajv';
import type { DataValidationCxt, SchemaValidateFunction } from 'ajv/dist/types/index.js';
import { defaultModelOf } from '../../../foundation/domain/events-model.ts';
import { nearestName } from '../../../foundation/domain/nearest-name.ts';
import { parseSpanBack, parseTime } from '../../../foundation/domain/parse-time.ts';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => uuid.test(text);

/** Compiles schemas into validators that collect every error. They do not convert types: "1" is not an integer. */
export function createAjv(): Ajv {
  return new Ajv({
    allErrors: true,
    // With the schema that refused the value: it has the whole rule.
    verbose: true,
    discriminator: true,
    useDefaults: true,
    strict: false,
    formats: {
      'date-time': (text: string) => parseTime(text) !== null,
      'time-or-span': (text: string) => parseTime(text) !== null || parseSpanBack(text) !== null,
      uuid: isUuid,
      int32: true,
      uri: true,
      password: true,
    },
  });
}

interface QuerySchema {
  readonly properties?: Readonly<Record<string, { readonly type?: string }>>;
}

/** Converts the texts of a query string to the types of its schema: numbers and lists. */
export function typedQuery(schema: QuerySchema, query: Record<string, unknown>): object {
  const typed: Record<string, unknown> = { ...query };
  for (const [name, { type }] of Object.entries(schema.properties ?? {})) {
    const value = typed[name];
    if (type === 'integer' && typeof value === 'string' && /^-?\d+$/.test(value)) {
      typed[name] = Number(value);
    }
    if (type === 'number' && typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value)) {
      typed[name] = Number(value);
    }
    if (type === 'array' && typeof value === 'string') typed[name] = [value];
  }
  return typed;
}

/** Put this beside the properties of a body that names a model. The schema itself names no models: each installation has its own. */
export const namesModel = { 'x-names-model': 'always' };
/** The same for a body that may name a saved export, which has its model. */
export const namesModelOrExport = { 'x-names-model': 'unless saved' };

/** Names that a message lists; `/api/capabilities` lists all. */
const listedNames = 50;

/**
 * Makes schemas with `namesModel` check the name against the models of this installation. A body without a name gets the default
 * model; it is refused if there is none.
 */
export function knowModels(ajv: Ajv, models: readonly string[]): void {
  const modelNames = new Set(models);
  const listed = models.slice(0, listedNames).join(', ');
  const others = models.length - listedNames;
  const choice =
    others > 0 ? `${listed}, or one of ${others} others (GET /api/capabilities)` : listed;
  const preset = defaultModelOf(models);
  const faultOf = (model: unknown) => {
    if (model === undefined) {
      return { code: 'required', detail: `Name the model to export: ${choice}.` };
    }
    // The property has a type of its own.
    if (typeof model !== 'string' || modelNames.has(model)) return null;
    const nearest = nearestName(model, models, 3);
    const hint = nearest === null ? '' : ` Did you mean ${nearest}?`;
    return { code: 'invalid_choice', detail: `Must be one of ${choice}.${hint}` };
  };
  const check: SchemaValidateFunction = (
    when: string,
    body: { model?: unknown; id?: unknown },
    _schema?: unknown,
    place?: DataValidationCxt,
  ) => {
    const isSaved = when === 'unless saved' && body.id !== undefined && body.model === undefined;
    if (!isSaved && body.model === undefined && preset !== null) body.model = preset;
    const fault = isSaved ? null : faultOf(body.model);
    const instancePath = `${place?.instancePath ?? ''}/model`;
    check.errors = fault ? [{ keyword: 'x-names-model', instancePath, params: fault }] : [];
    return fault === null;
  };
  ajv.addKeyword({
    keyword: 'x-names-model',
    type: 'object',
    schemaType: 'string',
    modifying: true,
    errors: true,
    validate: check,
  });
}

/** A function that `make` makes, at its first call or at that of `makeNow`. What `make` throws, the call throws. */
export function madeLate<Given extends unknown[], Result>(
  make: () => (...given: Given) => Result,
): { readonly call: (...given: Given) => Result; makeNow(): void } {
  let call: ((...given: Given) => Result) | undefined;
  const callOf = () => {
    call ??= make();
    return call;
  };
  return { call: (...given) => callOf()(...given), makeNow: () => void callOf() };
}
