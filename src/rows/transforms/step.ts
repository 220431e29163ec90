import {
  checkPluginConfig,
  type PluginConfig,
  type PluginField,
  withDefaults,
} from '../../foundation/domain/plugin.ts';
import { withEffort } from './effort.ts';
import type { RowError } from './row-error.ts';
import { readNumber } from './settings.ts';
import { type Apply, readAll, type Row, stepFields, type Transform } from './transform.ts';

/** What every step has, whatever its plugin. */
export interface StepFacts {
  readonly id: number;
  /** The name of its config or plugin, for logs and errors. */
  readonly name: string;
  /** What becomes of a row that it cannot handle: it goes on as it was, or leaves the chain. */
  readonly onError: 'keep' | 'reject';
  /** From 0 to 1, of the rows that reach the step. */
  readonly maxErrorShare: number;
}

/** A step whose code is ours: it handles a row at once. */
export interface RowStep extends StepFacts {
  readonly kind: 'row';
  readonly apply: Apply;
}

/** A row for a step that works elsewhere, and what names it: equal keys give equal random numbers. */
export interface KeyedRow {
  readonly key: string;
  readonly row: Row;
}

/** What a step makes of a row: a row, null to drop it, or why it could not. */
export type StepResult = Row | null | RowError;

/** What a step made of a batch: a list, or one that makes each result when it is asked for. */
export interface StepResults {
  readonly length: number;
  /**
   * Ask once for each.
   *
   * @param row the row that was given at this position
   * @throws what ends the run
   */
  at(index: number, row: Row): StepResult | undefined;
}

/** A step that works in another process, on many rows at a time. */
export interface BatchStep extends StepFacts {
  readonly kind: 'batch';
  /**
   * One result per row, in their order; what becomes of a row depends on that row only. An error that it
   * throws ends the run.
   *
   * @param rows read once, before this returns
   */
  readonly applyBatch: (rows: Iterable<KeyedRow>) => Promise<StepResults>;
}

/** A step of a chain, ready to run. */
export type Step = RowStep | BatchStep;

/** A step with an organization's own plugin, as data: it needs a sandbox to run. */
export interface OwnStep extends StepFacts {
  readonly kind: 'own';
  readonly source: string;
  /** The config of the plugin alone, with its secrets. */
  readonly config: PluginConfig;
  /** Values of the config that no log may show. */
  readonly secrets: readonly string[];
}

/** A step before its chain is opened. */
export type StepDefinition = RowStep | OwnStep;

/** The settings of an own plugin: its fields, and those that every step has. */
export function ownSchema(fields: readonly PluginField[]): readonly PluginField[] {
  const keys = new Set(fields.map(({ key }) => key));
  return [...fields, ...stepFields.filter(({ key }) => !keys.has(key))];
}

/**
 * A step of an own plugin, from its config with the secrets.
 *
 * @throws InvalidSettings if settings that every step has are not right
 */
export function defineOwnStep(
  given: Pick<OwnStep, 'id' | 'name' | 'source' | 'config' | 'secrets'>,
): OwnStep {
  const { on_error: onError, max_error_share: _, ...config } = given.config;
  const problems = checkPluginConfig(stepFields, { ...(onError && { on_error: onError }) });
  const settings = withDefaults(stepFields, filledIn(given.config));
  const read = { maxErrorShare: () => readNumber(settings, 'max_error_share', errorShares) };
  return {
    ...given,
    kind: 'own',
    config,
    onError: onError === 'reject' ? 'reject' : 'keep',
    ...readAll(read, problems),
  };
}

const errorShares = { from: 0, to: 1, whole: false } as const;

/** A form sends what was left empty as an empty text. */
function filledIn(config: PluginConfig): PluginConfig {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== ''));
}

/**
 * A step from its plugin and its config, with the secrets. A step that protects always rejects.
 *
 * @throws InvalidSettings with all problems, also of a stored config that no longer fits its plugin
 */
export function compileStep(
  given: { readonly id: number; readonly name: string | null; readonly config: PluginConfig },
  transform: Transform,
): RowStep {
  const { configSchema } = transform;
  const problems = checkPluginConfig(configSchema, given.config);
  const faulty = new Set(problems.map(({ attr }) => attr));
  const sound = Object.entries(filledIn(given.config)).filter(([key]) => !faulty.has(key));
  const config = withDefaults(configSchema, Object.fromEntries(sound));
  const read = {
    apply: () => transform.compile(config),
    maxErrorShare: () => readNumber(config, 'max_error_share', errorShares),
  };
  const { apply, maxErrorShare } = readAll(read, problems);
  return {
    kind: 'row',
    id: given.id,
    name: given.name ?? transform.name,
    apply: (row) => withEffort(() => apply(row)),
    onError: transform.protects || config.on_error === 'reject' ? 'reject' : 'keep',
    maxErrorShare,
  };
}
