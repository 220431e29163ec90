/** A seeded stream of choices. */
export interface Random {
  /** In [0, 1). */
  next(): number;
  between(from: number, to: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly [T, ...T[]]): T;
}

/** One stream for each actor: what one of them chooses does not depend on how fast the others are. */
export function randomOf(seed: number, actor: string): Random {
  let state = seed >>> 0;
  for (const char of actor) state = Math.imul(state ^ char.charCodeAt(0), 0x01000193) >>> 0;
  // mulberry32
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    between: (from, to) => from + (to - from) * next(),
    chance: (probability) => next() < probability,
    pick: (items) => items[Math.floor(next() * items.length)] ?? items[0],
  };
}
