/** The ids with one moved to another place; the place is kept within the list. */
export function moved(ids: readonly number[], id: number, to: number): readonly number[] {
  const others = ids.filter((other) => other !== id);
  const place = Math.min(Math.max(to, 0), others.length);
  return others.toSpliced(place, 0, id);
}

/** The items in the order of `ids`; those that it does not name come last. */
export function inOrder<T extends { readonly id: number }>(
  items: readonly T[],
  ids: readonly number[],
): readonly T[] {
  const placeOf = new Map(ids.map((id, place) => [id, place]));
  const place = ({ id }: T) => placeOf.get(id) ?? ids.length;
  return items.toSorted((a, b) => place(a) - place(b));
}

/** Orders from 1, by id, as the API takes them. */
export function ordersOf(ids: readonly number[]): Readonly<Record<string, number>> {
  return Object.fromEntries(ids.map((id, place) => [String(id), place + 1]));
}

/** The place at which a dragged item would be, from the middles of the other items and the pointer. */
export function positionAt(middles: readonly number[], pointer: number): number {
  return middles.filter((middle) => middle < pointer).length;
}
