import type { Expression } from './expression.ts';
import { keyTexts, printSelect, type SentColumn } from './select.ts';
import { instant, literal, ofTenant, type Selection } from './selection.ts';
import { conjunction } from './translate.ts';
import { checkWall } from './wall.ts';

/**
 * Finds the tenant's rows with one of some keys outside the selection's interval, whatever its query: their keys as text,
 * in the form of `copyKeysSql`.
 *
 * @param columns as of `copyKeysSql`
 * @param keys values of the columns as text, in their order; at least one key
 */
export function elsewhereSql(
  selection: Selection,
  columns: readonly SentColumn[],
  keys: readonly KeyTexts[],
): string {
  const { model, tenantKey, range } = selection;
  if (model.intervalColumn === null) throw new Error(`${model.name} has no interval column`);
  const at: Expression = { kind: 'column', name: model.intervalColumn };
  const hasKey = keys.map((texts) =>
    conjunction(
      'AND',
      model.keyColumns.map((name, index) => isText(name, texts[index] ?? null)),
    ),
  );
  const filter = conjunction('AND', [
    ofTenant(selection),
    conjunction('OR', hasKey),
    conjunction('OR', [
      { kind: 'binary', operator: '<', left: at, right: instant(range.start) },
      { kind: 'binary', operator: '>=', left: at, right: instant(range.end) },
    ]),
  ]);
  // Not kept as checked: each has other keys.
  return checkWall(
    printSelect(model, null, keyTexts(model, null, columns), filter, false),
    model,
    tenantKey,
  );
}

/** The values of a row's key columns as text. */
export type KeyTexts = readonly (string | null)[];

function isText(name: string, text: string | null): Expression {
  const column: Expression = { kind: 'column', name };
  if (text === null) return { kind: 'test', test: 'IS NULL', operand: column };
  return { kind: 'binary', operator: '=', left: column, right: literal(text) };
}
