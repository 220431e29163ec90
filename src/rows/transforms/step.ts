import {
  checkPluginConfig,
  type PluginConfig,
  withDefaults,
} from '../../foundation/domain/plugin.ts';
import { type RowError, withEffort } from './effort.ts';
import { type Apply, readAll, readNumber, type Row, type Transform } from './transform.ts';

export interface StepFacts {
  readonly id: number;
  readonly name: string;
  /** The fate of a row that it cannot handle: it goes on as it was, or leaves the chain. */
  readonly onError: 'keep' | 'reject';
  /** From 0 to 1, of the rows that reach the step. */
  readonly maxErrorShare: number;
}

export interface RowStep extends StepFacts {
  readonly kind: 'row';
  readonly apply: Apply;
}

/** A row for a step that works elsewhere, and what names it: equal keys give equal random numbers. */
export interface KeyedRow {
  readonly key: string;
  readonly row: Row;
}

export type StepResult = Row | null | RowError;

/** A list, or one that makes each result when it is asked for. */
export interface StepResults {
  readonly length: number;
  /** Once for each. @param row the row that was given at this position @throws what ends the run */
  at(index: number, row: Row): StepResult | undefined;
}

export interface BatchStep extends StepFacts {
  readonly kind: 'batch';
  /** One result per row, each by that row alone. Throws what ends the run. @param rows read once, before this returns */
  readonly applyBatch: (rows: Iterable<KeyedRow>) => Promise<StepResults>;
}

export type Step = RowStep | BatchStep;

export const errorShares = { from: 0, to: 1, whole: false } as const;

/** A form sends what was left empty as an empty text. */
export function filledIn(config: PluginConfig): PluginConfig {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== ''));
}

/**
 * Its config has the secrets. A step that protects always rejects.
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
