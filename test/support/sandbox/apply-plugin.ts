import {
  openSandbox,
  PluginRowError,
  type Sandbox,
  type SandboxOptions,
} from '../../../src/extensions/own-plugins/sandbox.ts';
import { JsonObject, trustJson } from '../../../src/rows/transforms/json.ts';
import type { KeyedRow, StepResult } from '../../../src/rows/transforms/step.ts';

export const intervalEndMs = 1_714_557_600_000;

/** An event as its text, and the row of it. */
export function rowOf(event: unknown): JsonObject {
  return new JsonObject(trustJson(typeof event === 'string' ? event : JSON.stringify(event)));
}

export const someEvent = {
  uuid: 'u1',
  team_id: 7,
  event: 'paid',
  properties: { amount: 2, email: 'a@b.c' },
};

/** A result as data: an event, null for a dropped one, `error: …`. */
export function shown(result: StepResult | undefined): unknown {
  if (result instanceof PluginRowError) return `error: ${result.message}`;
  return result instanceof JsonObject ? JSON.parse(result.text) : result;
}

/** Opens a sandbox for the duration of `use`. */
export async function withPlugin<Result>(
  options: string | (Partial<SandboxOptions> & { readonly source: string }),
  use: (sandbox: Sandbox) => Promise<Result>,
): Promise<Result> {
  const given = typeof options === 'string' ? { source: options } : options;
  const sandbox = await openSandbox({ config: {}, intervalEndMs, ...given });
  try {
    return await use(sandbox);
  } finally {
    await sandbox.close();
  }
}

/** What a plugin makes of these events, in one batch. Their keys are their positions. */
export function applyPlugin(
  options: string | (Partial<SandboxOptions> & { readonly source: string }),
  ...events: readonly unknown[]
): Promise<unknown[]> {
  return withPlugin(options, async (sandbox) => {
    const rows = events.map((event, index) => ({ key: String(index), row: rowOf(event) }));
    return (await applyRows(sandbox, rows)).map(shown);
  });
}

/** Every result of a batch. */
export async function applyRows(
  sandbox: Sandbox,
  rows: readonly KeyedRow[],
): Promise<(StepResult | undefined)[]> {
  const results = await sandbox.apply(rows);
  if (results.length !== rows.length) throw new Error('a row has no result');
  return rows.map(({ row }, index) => results.at(index, row));
}

/** A plugin that writes to `properties.seen` what an expression is, or the error it throws. */
export function seeing(expression: string): string {
  return `export async function processEvent(event, meta) {
    let seen;
    try { seen = await (${expression}); } catch (error) { seen = error.name + ': ' + error.message; }
    return { ...event, properties: { seen: seen === undefined ? 'undefined' : seen } };
  }`;
}

/** What the expression is inside the sandbox. */
export async function see(expression: string): Promise<unknown> {
  const [after] = await applyPlugin(seeing(expression), someEvent);
  const { properties } = after as { properties: { seen: unknown } };
  return properties.seen;
}
