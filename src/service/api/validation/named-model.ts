import type { Ajv } from 'ajv';
import type { DataValidationCxt, SchemaValidateFunction } from 'ajv/dist/types/index.js';
import { nearestName } from '../../../foundation/domain/nearest-name.ts';
import { defaultModelOf } from '../../../foundation/domain/events-model.ts';

/** Put this beside the properties of a body that names a model. The schema itself names no models: each installation has its own. */
export const namesModel = { 'x-names-model': 'always' };
/** The same for a body that may name a saved export, which has its model. */
export const namesModelOrExport = { 'x-names-model': 'unless saved' };

/** Names that a message lists; `/api/capabilities` lists all. */
const listedNames = 50;

/** One of three letters may be wrong. */
const lettersPerMistake = 3;

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
    const nearest = nearestName(model, models, lettersPerMistake);
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
