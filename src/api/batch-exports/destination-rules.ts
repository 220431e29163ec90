import type { ValidateFunction } from 'ajv';
import type { DestinationContext, DestinationDefinition } from '../../destinations/destination.ts';
import { checkConfigSize } from '../../domain/config-size.ts';
import type { ExportRules } from '../../use-cases/exports/rules.ts';
import { problemsOf } from '../validation/problem-of.ts';
import { createAjv } from '../validation/validator.ts';
import { closed } from './schema.ts';

interface Checked {
  readonly definition: DestinationDefinition;
  readonly validate: ValidateFunction;
  readonly secrets: readonly string[];
}

const at = (attr: string | null): string =>
  attr === null ? 'destination__config' : `destination__config__${attr}`;

/** The registry of destinations, as rules for the use cases. */
export function destinationRules(
  definitions: readonly DestinationDefinition[],
  context: DestinationContext,
): Omit<ExportRules, 'models' | 'checkQuery'> {
  const ajv = createAjv();
  const byType = new Map<string, Checked>(
    definitions.map((definition) => [
      definition.type,
      {
        definition,
        validate: ajv.compile(closed(definition.configSchema)),
        secrets: secretNames(definition),
      },
    ]),
  );
  const find = (type: string): Checked => {
    const found = byType.get(type);
    if (!found) throw new Error(`there is no destination type ${type}`);
    return found;
  };
  return {
    destinationTypes: [...byType.keys()],
    placeOf: (type, config) => find(type).definition.place(config),
    secretProperties: (type) => find(type).secrets,
    encloseConfig: (type, config, projectId, before) =>
      find(type).definition.enclose?.(config, projectId, before) ?? config,
    checkDestination(type, config) {
      const { definition, validate } = find(type);
      const tooLarge = checkConfigSize(config, at(null));
      if (tooLarge.length > 0) return { problems: tooLarge, config };
      // The validation writes defaults into it.
      const whole = structuredClone(config);
      const problems = validate(whole)
        ? definition.validate({ ...whole }, context)
        : problemsOf(validate.errors ?? [], config);
      return { problems: problems.map((p) => ({ ...p, attr: at(p.attr) })), config: whole };
    },
  };
}

function secretNames({ configSchema }: DestinationDefinition): string[] {
  return Object.entries(configSchema.properties)
    .filter(([, property]) => 'writeOnly' in property && property.writeOnly === true)
    .map(([name]) => name);
}
