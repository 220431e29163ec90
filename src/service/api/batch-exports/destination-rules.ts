import type { ValidateFunction } from 'ajv';
import { checkConfigSize } from '../../../foundation/domain/config-size.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { nearestName } from '../../../foundation/domain/nearest-name.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';
import type {
  DestinationContext,
  DestinationDefinition,
} from '../../../rows/destinations/destination.ts';
import type { ExportRules } from '../../use-cases/exports/rules.ts';
import { problemsOf } from '../validation/problem-of.ts';
import { createAjv } from '../validation/validator.ts';
import { closed } from './schema.ts';

interface Checked {
  readonly definition: DestinationDefinition;
  /** Compiled at the first call. */
  readonly validator: () => ValidateFunction;
  readonly secrets: readonly string[];
}

const at = (attr: string | null): string =>
  attr === null ? 'destination__config' : `destination__config__${attr}`;

/** The registry of destinations, as rules for the use cases. */
export function destinationRules(
  definitions: readonly DestinationDefinition[],
  context: DestinationContext,
): Omit<ExportRules, 'models' | 'checkQuery' | 'applyFilters'> {
  const ajv = createAjv();
  const byType = new Map<string, Checked>(
    definitions.map((definition) => {
      const schema = closed(definition.configSchema);
      // Ajv keeps what it compiled, by the schema.
      const validator = () => ajv.compile(schema);
      return [definition.type, { definition, validator, secrets: secretNames(definition) }];
    }),
  );
  const find = (type: string): Checked => {
    const rule = byType.get(type);
    if (!rule) throw new Error(`there is no destination type ${type}`);
    return rule;
  };
  return {
    destinationTypes: [...byType.keys()],
    placeOf: (type, config) => find(type).definition.place(config),
    secretProperties: (type) => find(type).secrets,
    keyIdProperty: (type) => find(type).definition.keyIdProperty ?? null,
    ownProperties: (type) => find(type).definition.ownProperties,
    encloseConfig: (type, config, projectId) =>
      find(type).definition.enclose?.(config, projectId) ?? config,
    checkDestination(type, config) {
      const { definition, validator } = find(type);
      const validate = validator();
      const tooLarge = checkConfigSize(config, at(null));
      if (tooLarge.length > 0) return { problems: tooLarge, config };
      // The validation writes defaults into it.
      const whole = structuredClone(config);
      const faults = validate(whole) ? [] : problemsOf(validate.errors ?? [], config);
      const faultyFields = new Set(faults.map(({ attr }) => attr));
      const rest = withStandIns(definition, whole, faults);
      const others = validate(rest)
        ? definition.validate(rest, context).filter(({ attr }) => !faultyFields.has(attr))
        : [];
      const problems = [...faults, ...others];
      return { problems: problems.map((p) => ({ ...p, attr: at(p.attr) })), config: whole };
    },
  };
}

/** A config in which each faulty property has a value that could be meant, so that the rules over the others can be checked. */
function withStandIns(
  { configSchema }: DestinationDefinition,
  config: DestinationConfig,
  faults: readonly Problem[],
): Record<string, unknown> {
  const rest: Record<string, unknown> = { ...config };
  for (const name of new Set(faults.map(({ attr }) => String(attr).split('__', 1)[0] ?? ''))) {
    const given = rest[name];
    delete rest[name];
    const property = configSchema.properties[name] as Property | undefined;
    const value = property && standInOf(property, given);
    if (value !== undefined) rest[name] = value;
  }
  return rest;
}

interface Property {
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Property[];
  readonly examples?: readonly unknown[];
  readonly writeOnly?: boolean;
}

function standInOf(property: Property, given: unknown): unknown {
  const choices = (property.enum ?? property.anyOf?.[0]?.enum ?? []).map(String);
  const lower = choices.map((choice) => choice.toLowerCase());
  const nearest = typeof given === 'string' ? nearestName(given.toLowerCase(), lower, 3) : null;
  if (nearest !== null) return choices[lower.indexOf(nearest)];
  return property.examples?.[0] ?? (property.writeOnly ? 'x' : undefined);
}

function secretNames({ configSchema }: DestinationDefinition): string[] {
  return Object.entries(configSchema.properties)
    .filter(([, property]) => 'writeOnly' in property && property.writeOnly === true)
    .map(([name]) => name);
}
