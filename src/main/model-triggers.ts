import type { Config } from '../foundation/config/config.ts';
import { type TriggerStatement, triggerStatements } from '../rows/changes/trigger-sql.ts';
import { loadModels } from './models.ts';

/** A sentence if there is no such model, or it has no version_column. */
export function listTriggers(config: Config, name: string): readonly TriggerStatement[] | string {
  const models = loadModels(config, true).map(({ model }) => model);
  const model = models.find((one) => one.name === name);
  if (!model) {
    const names = models.map((one) => one.name).join(', ');
    return `There is no model ${name}. The models are ${names}.`;
  }
  const statements = triggerStatements(model);
  if (statements.length > 0) return statements;
  return `The model ${name} has no version_column. Set it in MODELS_FILE to the name of the column that the trigger shall set.`;
}
export type { TriggerStatement };
