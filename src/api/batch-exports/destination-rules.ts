import type { ValidateFunction } from 'ajv';
import type { DestinationContext, DestinationDefinition } from '../../destinations/destination.ts';
import { checkConfigSize } from '../../domain/config-size.ts';
import type { DestinationConfig } from '../../domain/file-settings.ts';
import type { Problem } from '../../domain/problem.ts';
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
    ownProperties: (type) => find(type).definition.ownProperties,
    encloseConfig: (type, config, projectId, before) =>
      find(type).definition.enclose?.(config, projectId, before) ?? config,
    checkDestination(type, config) {
      const { definition, validate } = find(type);
      const tooLarge = checkConfigSize(config, at(null));
      if (tooLarge.length > 0) return { problems: tooLarge, config };
      // The validation writes defaults into it.
      const whole = structuredClone(config);
      const faults = validate(whole) ? [] : problemsOf(validate.errors ?? [], config);
      const known = new Set(faults.map(({ attr }) => attr));
      const rest = faults.length === 0 ? { ...whole } : withStandIns(definition, whole, faults);
      const others =
        faults.length === 0 || validate(rest)
          ? definition.validate(rest, context).filter(({ attr }) => !known.has(attr))
          : [];
      const problems = [...faults, ...others];
      return { problems: problems.map((p) => ({ ...p, attr: at(p.attr) })), config: whole };
    },
  };
}

/**
 * A config in which properties with a problem are absent, or have their example if they are required: so the
 * rules over the other properties can be checked too.
 */
function withStandIns(
  { configSchema }: DestinationDefinition,
  config: DestinationConfig,
  faults: readonly Problem[],
): Record<string, unknown> {
  const names = new Set(faults.map(({ attr }) => attr?.split('__', 1)[0]));
  const rest = Object.fromEntries(Object.entries(config).filter(([name]) => !names.has(name)));
  for (const name of configSchema.required ?? []) {
    const { examples } = (configSchema.properties[name] ?? {}) as { examples?: readonly unknown[] };
    rest[name] ??= examples?.[0];
  }
  return rest;
}

function secretNames({ configSchema }: DestinationDefinition): string[] {
  return Object.entries(configSchema.properties)
    .filter(([, property]) => 'writeOnly' in property && property.writeOnly === true)
    .map(([name]) => name);
}
