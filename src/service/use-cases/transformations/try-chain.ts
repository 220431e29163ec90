import { setTimeout as sleep } from 'node:timers/promises';
import { StepFault } from '../../../foundation/domain/errors.ts';
import type { Model } from '../../../foundation/domain/model.ts';
import { type PluginConfig, withDefaults } from '../../../foundation/domain/plugin.ts';
import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';
import { withOpenSteps } from '../../../rows/sandbox/open-steps.ts';
import { chainColumnsOf } from '../../../rows/transforms/column-values.ts';
import { findTransform } from '../../../rows/transforms/index.ts';
import {
  compileStep,
  defineOwnStep,
  type Step,
  type StepDefinition,
} from '../../../rows/transforms/step.ts';
import { type TracedRow, traceRow } from '../../../rows/transforms/trace.ts';
import { readRow } from '../../../rows/transforms/transform-rows.ts';
import { findChain } from '../../../state/store/transformations/chains.ts';
import type { InstalledPlugin } from '../../../state/store/transformations/plugins.ts';
import type { Actor, Context } from '../context.ts';
import { configProblems } from './create-config.ts';
import { openChain } from './open-chain.ts';
import { findPlugins } from './plugins.ts';

/** A step that is tried without being stored. */
export interface TrialStep {
  readonly plugin: number;
  readonly config: Readonly<Record<string, unknown>>;
  readonly name: string | null;
}

/** Rows to try a chain on; `columns` is null if only the rows themselves are known. */
export interface TrialRows {
  readonly lines: readonly string[];
  readonly columns: readonly Column[] | null;
  readonly keyColumns: readonly string[];
  readonly fixedColumns: readonly string[];
}

export interface Trial {
  readonly row: string;
  readonly traced: TracedRow;
}

/** The stored, enabled chain of a project. @throws SluiceError `transformation.invalid` */
export async function storedSteps(
  context: Context,
  teamId: number,
): Promise<readonly StepDefinition[]> {
  const chain = await openChain(context, teamId, await findChain(context.db, teamId));
  return chain?.steps ?? [];
}

/** Steps from the request itself; they are numbered from 1. @throws Refusal with every problem */
export async function trialSteps(
  context: Context,
  { organizationId }: Actor,
  given: readonly TrialStep[],
): Promise<readonly StepDefinition[]> {
  const ids = given.map(({ plugin }) => plugin);
  const plugins = await findPlugins(context.db, organizationId, ids);
  const problems: Problem[] = [];
  const steps = given.flatMap(({ plugin: id, config, name }, index): StepDefinition[] => {
    const plugin = plugins.get(id);
    if (!plugin) {
      const detail = 'There is no plugin with this id that can run.';
      problems.push({ code: 'does_not_exist', detail, attr: `configs__${index}__plugin` });
      return [];
    }
    const found = configProblems(plugin, config);
    if (found.length > 0) {
      problems.push(...found.map((each) => ({ ...each, attr: `configs__${index}__${each.attr}` })));
      return [];
    }
    const texts = config as Readonly<Record<string, string>>;
    return [trialStep(plugin, { id: index + 1, name, config: texts })];
  });
  if (problems.length > 0) throw new Refusal(...problems);
  return steps;
}

function trialStep(
  { id, name: pluginName, source, configSchema }: InstalledPlugin,
  given: { readonly id: number; readonly name: string | null; readonly config: PluginConfig },
): StepDefinition {
  const transform = findTransform(id);
  if (transform) return compileStep(given, transform);
  const isSecret = new Set(configSchema.filter(({ secret }) => secret).map(({ key }) => key));
  const config = withDefaults(configSchema, given.config);
  const secrets = Object.entries(config).flatMap(([key, value]) =>
    isSecret.has(key) ? [value] : [],
  );
  const name = given.name ?? pluginName;
  return defineOwnStep({ id: given.id, name, source: source ?? '', config, secrets });
}

/** Rows that a request brought; the columns that decide where a row belongs cannot change. */
export function givenRows(
  rows: readonly Readonly<Record<string, unknown>>[],
  { intervalColumn, keyColumns, tenantColumn }: Model,
): TrialRows {
  const fixedColumns = [...keyColumns, tenantColumn, intervalColumn];
  return { lines: rows.map((row) => JSON.stringify(row)), columns: null, keyColumns, fixedColumns };
}

/** Steps with an own plugin that one request may try: each has a process in the API's machine. */
const maxOwnSteps = 4;

/** @returns whether the steps need a sandbox. @throws Refusal if they need too many */
export function refuseManySandboxes(ownSteps: number, attr: string | null): boolean {
  if (ownSteps <= maxOwnSteps) return ownSteps > 0;
  const detail = `At most ${maxOwnSteps} steps with your own plugins can be tried at a time. Try the chain in parts.`;
  throw new Refusal({ code: 'invalid_input', detail, attr });
}

const patienceMs = 20_000;

/**
 * Applies steps to rows and shows what each step did. Stores nothing.
 *
 * @param attr what a refusal names if the steps cannot run
 * @throws Refusal if a plugin cannot be set up, or the steps take too long
 */
export async function tryChain(
  definitions: readonly StepDefinition[],
  rows: TrialRows,
  attr: string,
  signal: AbortSignal,
): Promise<readonly Trial[]> {
  const late = AbortSignal.timeout(patienceMs);
  const refuse = (detail: string) => new Refusal({ code: 'invalid_input', detail, attr });
  // A trial belongs to no interval: the clock of its plugins shows the same for every trial.
  const options = { intervalEndMs: 0, signal: AbortSignal.any([signal, late]) };
  try {
    return await withOpenSteps(definitions, options, (steps) =>
      traceRows(steps, rows, options.signal),
    );
  } catch (error) {
    if (error instanceof StepFault) throw refuse(`${error.spec.means} ${error.detail}`);
    if (late.aborted && !signal.aborted) {
      throw refuse(`The steps took more than ${patienceMs / 1_000} seconds. Send fewer rows.`);
    }
    throw error;
  }
}

async function traceRows(
  steps: readonly Step[],
  { lines, columns, keyColumns, fixedColumns }: TrialRows,
  signal: AbortSignal,
): Promise<readonly Trial[]> {
  const trace = async (line: string): Promise<Trial> => {
    const row = readRow(line);
    const known = columns
      ? chainColumnsOf(columns, fixedColumns)
      : { names: [...row.members.keys()], protected: fixedColumns };
    return { row: line, traced: await traceRow(steps, known, row, keyColumns) };
  };
  // Steps that work in another process leave this one to others anyway.
  if (steps.every(({ kind }) => kind === 'row')) return workInTurns(lines, signal, trace);
  const trials: Trial[] = [];
  for (const line of lines) trials.push(await trace(line));
  return trials;
}

/** A trial computes for this time, then leaves the process to others for three times as long. */
const turnMs = 5;
const restShare = 3;

/**
 * The results of `work` for each item, in their order. After each 5 ms the process gets a rest, in which it
 * answers others. An abort ends it in a rest.
 */
async function workInTurns<Item, Result>(
  items: readonly Item[],
  signal: AbortSignal,
  work: (item: Item) => Result | Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  let startedAt = performance.now();
  for (const item of items) {
    results.push(await work(item));
    const spentMs = performance.now() - startedAt;
    if (spentMs < turnMs) continue;
    await sleep(spentMs * restShare, undefined, { signal });
    startedAt = performance.now();
  }
  return results;
}
