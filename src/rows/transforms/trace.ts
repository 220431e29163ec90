import { Chain } from './chain.ts';
import type { ChainColumns } from './chain-step.ts';
import { type Json, type JsonText, objectOf, textOf } from './json.ts';
import type { Step } from './step.ts';
import type { Row } from './transform.ts';

/** What a step changed: a column, or a property of a JSON column. Null: it was, or is, not there. */
export interface TracedChange {
  /** `event`, `properties.email`. */
  readonly path: string;
  readonly before: JsonText | null;
  readonly after: JsonText | null;
}

/** What one step made of one row. */
export interface TracedStep {
  readonly step: number;
  readonly name: string;
  readonly fate: 'kept' | 'dropped' | 'rejected';
  /** Why the step could not handle the row; null if it could. */
  readonly error: string | null;
  readonly changes: readonly TracedChange[];
  readonly microseconds: number;
}

export interface TracedRow {
  /** Up to the step at which the row left. */
  readonly steps: readonly TracedStep[];
  /** Null if a step dropped or rejected the row. */
  readonly result: JsonText | null;
}

/** Applies a chain to one row and shows each step, exactly as a run would. @throws what a step throws that works elsewhere */
export async function traceRow(
  steps: readonly Step[],
  columns: ChainColumns,
  given: Row,
  keyColumns: readonly string[] = [],
): Promise<TracedRow> {
  const traced: TracedStep[] = [];
  let row = given;
  for (const step of steps) {
    const chain = new Chain([step], columns, keyColumns);
    const startedAt = performance.now();
    const [outcome] = await chain.applyBlock([row]);
    if (!outcome) throw new Error('the chain has lost a row');
    const microseconds = Math.round((performance.now() - startedAt) * 1_000);
    const [error] = chain.steps[0]?.errors ?? [];
    traced.push({
      step: step.id,
      name: step.name,
      fate: outcome.kind,
      error: error?.reason ?? null,
      changes: outcome.kind === 'kept' ? changesBetween(row, outcome.row) : [],
      microseconds,
    });
    if (outcome.kind !== 'kept') return { steps: traced, result: null };
    row = outcome.row;
  }
  return { steps: traced, result: row.text };
}

function changesBetween(before: Row, after: Row): readonly TracedChange[] {
  if (before === after) return [];
  return namesOf(before, after).flatMap((name) => {
    const [was, is] = [before.get(name), after.get(name)];
    const [inside, within] = [objectOf(was), objectOf(is)];
    if (!inside || !within) return changeOf(name, was, is);
    if (inside.text === within.text) return [];
    return namesOf(inside, within).flatMap((key) =>
      changeOf(`${name}.${key}`, inside.get(key), within.get(key)),
    );
  });
}

function changeOf(path: string, was: Json | undefined, is: Json | undefined): TracedChange[] {
  const before = was === undefined ? null : textOf(was);
  const after = is === undefined ? null : textOf(is);
  return before === after ? [] : [{ path, before, after }];
}

function namesOf(a: Row, b: Row): readonly string[] {
  return [...new Set([...a.members.keys(), ...b.members.keys()])];
}
