/** The ids with one moved to another position, which is kept within the list. */
export function moved(ids: readonly number[], id: number, to: number): readonly number[] {
  const others = ids.filter((other) => other !== id);
  const position = Math.min(Math.max(to, 0), others.length);
  return others.toSpliced(position, 0, id);
}

/** Orders from 1, by id, as the API takes them. */
export function ordersOf(ids: readonly number[]): Readonly<Record<string, number>> {
  return Object.fromEntries(ids.map((id, position) => [String(id), position + 1]));
}
