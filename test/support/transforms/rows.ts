import { Chain, type Outcome, type Pause } from '../../../src/rows/transforms/chain.ts';
import type { ChainColumns } from '../../../src/rows/transforms/chain-step.ts';
import { transforms } from '../../../src/rows/transforms/index.ts';
import {
  type Json,
  JsonObject,
  type JsonText,
  listOf,
  objectOf,
  stringOf,
  textOf,
  trustJson,
} from '../../../src/rows/transforms/json.ts';
import { compileStep, type RowStep, type Step } from '../../../src/rows/transforms/step.ts';
import type { Apply, Row, Transform } from '../../../src/rows/transforms/transform.ts';

/** A row from its columns. An object in a column is read at most once, however many steps look into it. */
export function makeRow(columns: Iterable<readonly [string, JsonText]>): Row {
  const members = new Map<string, Json>();
  for (const [name, text] of columns) members.set(name, objectOf(text) ?? text);
  return new JsonObject(members);
}

/** A row from JSON text, its columns as a source would give them: as text. */
export function rowOfText(text: string): Row {
  const columns = [...new JsonObject(trustJson(text)).members];
  return makeRow(columns.map(([name, value]) => [name, textOf(value)]));
}

export function rowOf(columns: Readonly<Record<string, unknown>>): Row {
  return rowOfText(JSON.stringify(columns));
}

/** Equal for values that mean the same: without order of names and blanks, numbers as they are written. */
export function canonical(value: Json): string {
  const list = listOf(value);
  if (list) return `[${list.map(canonical).join()}]`;
  const object = objectOf(value);
  if (object) {
    const members = [...object.members].map(
      ([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`,
    );
    return `{${members.sort().join()}}`;
  }
  const text = stringOf(value);
  return text === null ? textOf(value) : JSON.stringify(text);
}

/** A step of code of a test's own. */
export function stepOf(apply: Apply, given: Partial<RowStep> = {}): RowStep {
  return { kind: 'row', id: 1, name: 'Test', apply, onError: 'keep', maxErrorShare: 1, ...given };
}

/** The plugin of the registry with this name or id. */
export function transformOf(named: string | number): Transform {
  const found = transforms.find(({ id, name }) => id === named || name === named);
  if (!found) throw new Error(`There is no plugin ${named}.`);
  return found;
}

/** @param plugin or its name or id */
export function stepOfPlugin(
  plugin: Transform | string | number,
  config: Readonly<Record<string, string>>,
  id = 1,
): RowStep {
  const transform = typeof plugin === 'object' ? plugin : transformOf(plugin);
  return compileStep({ id, name: null, config }, transform);
}

/** A chain over rows with the columns of this one. */
export function chainFor(row: Row, steps: readonly Step[], misfit?: ChainColumns['misfit']): Chain {
  const names = [...row.members.keys()];
  const guarded = ['uuid', 'team_id', 'inserted_at'].filter((name) => names.includes(name));
  const columns = { names, protected: guarded, ...(misfit && { misfit }) };
  return new Chain(steps, columns, ['uuid']);
}

/** What becomes of the rows of a block, in their order. */
export async function applyBlock(
  chain: Chain,
  given: readonly Row[],
  pause?: Pause,
): Promise<readonly Outcome[]> {
  const judge = await chain.judgeBlock(given, () => pause);
  const outcomes: Outcome[] = [];
  for (const [index, row] of given.entries()) {
    const judged = judge(index, row, pause);
    outcomes.push(judged instanceof Promise ? await judged : judged);
  }
  return outcomes;
}
