/** The ids with one moved to another position, which is kept within the list. */
export function moved(ids: readonly number[], id: number, to: number): readonly number[] {
  const others = ids.filter((other) => other !== id);
  const position = Math.min(Math.max(to, 0), others.length);
  return others.toSpliced(position, 0, id);
}

/** The items in the order of `ids`; those that it does not name come last. */
export function inOrder<T extends { readonly id: number }>(
  items: readonly T[],
  ids: readonly number[],
): readonly T[] {
  const positions = new Map(ids.map((id, position) => [id, position]));
  const position = ({ id }: T) => positions.get(id) ?? ids.length;
  return items.toSorted((a, b) => position(a) - position(b));
}

/** Orders from 1, by id, as the API takes them. */
export function ordersOf(ids: readonly number[]): Readonly<Record<string, number>> {
  return Object.fromEntries(ids.map((id, position) => [String(id), position + 1]));
}

/** The position at which a dragged item would be, from the middles of the other items and the pointer. */
export function positionAt(middles: readonly number[], pointer: number): number {
  return middles.filter((middle) => middle < pointer).length;
}
