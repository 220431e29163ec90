import type { Model } from '../../domain/model.ts';
import { type Problem, Refusal } from '../../domain/problem.ts';
import type { Column } from '../../domain/row-block.ts';
import { findChain } from '../../store/chains.ts';
import { chainColumnsOf } from '../../transforms/column-values.ts';
import { findTransform } from '../../transforms/index.ts';
import { compileStep, type Step } from '../../transforms/step.ts';
import { type TracedRow, traceRow } from '../../transforms/trace.ts';
import { readRow } from '../../transforms/transform-rows.ts';
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
  readonly fixedColumns: readonly string[];
}

export interface Trial {
  readonly row: string;
  readonly traced: TracedRow;
}

/** The stored, enabled chain of a project. @throws SluiceError `transformation.invalid` */
export async function storedSteps(context: Context, teamId: number): Promise<readonly Step[]> {
  const chain = await openChain(context, teamId, await findChain(context.db, teamId));
  return chain?.steps ?? [];
}

/** Steps from the request itself; they are numbered from 1. @throws Refusal with every problem */
export async function trialSteps(
  context: Context,
  { organizationId }: Actor,
  given: readonly TrialStep[],
): Promise<readonly Step[]> {
  const ids = given.map(({ plugin }) => plugin);
  const plugins = await findPlugins(context.db, organizationId, ids);
  const problems: Problem[] = [];
  const steps = given.flatMap(({ plugin: id, config, name }, index) => {
    const plugin = plugins.get(id);
    const transform = findTransform(id);
    if (!plugin || !transform) {
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
    return [compileStep({ id: index + 1, name, config: texts }, transform)];
  });
  if (problems.length > 0) throw new Refusal(...problems);
  return steps;
}

/** Rows that a request brought; the columns that decide where a row belongs cannot change. */
export function givenRows(
  rows: readonly Readonly<Record<string, unknown>>[],
  { intervalColumn, keyColumns, tenantColumn }: Model,
): TrialRows {
  const fixedColumns = [...keyColumns, tenantColumn, intervalColumn];
  return { lines: rows.map((row) => JSON.stringify(row)), columns: null, fixedColumns };
}

/** Applies steps to rows and shows what each step did. Stores nothing. */
export function tryChain(
  steps: readonly Step[],
  { lines, columns, fixedColumns }: TrialRows,
): readonly Trial[] {
  return lines.map((line) => {
    const row = readRow(line);
    const known = columns
      ? chainColumnsOf(columns, fixedColumns)
      : { names: [...row.members.keys()], protected: fixedColumns };
    return { row: line, traced: traceRow(steps, known, row) };
  });
}
