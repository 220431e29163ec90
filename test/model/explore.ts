/** Breadth-first search over every state that a model can reach: the first violation is a shortest one. */

/** One thing that can happen next. */
export interface Move<State> {
  /** As a line of a counterexample. */
  readonly label: string;
  /** The state after it. Throws `Violation` if it breaks an invariant. */
  readonly next: () => State;
}

export interface Model<State> {
  readonly start: State;
  /** The same text for states that no step can distinguish. */
  readonly keyOf: (state: State) => string;
  readonly movesOf: (state: State) => readonly Move<State>[];
  /** Throws `Violation` if an invariant does not hold in `state`. */
  readonly check: (state: State) => void;
}

/** A broken invariant: its number in docs/internals/guarantees.md, and what happened. */
export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, what: string) {
    super(`${invariant}: ${what}`);
    this.invariant = invariant;
  }
}

export interface Exploration {
  readonly states: number;
  /** Moves on the longest of the shortest ways. */
  readonly depth: number;
  readonly violation: { readonly invariant: string; readonly text: string } | null;
}

interface Node<State> {
  readonly state: State;
  readonly depth: number;
  readonly way: Way | null;
}

/** How a state was reached: its last move, and the way before it. */
interface Way {
  readonly label: string;
  readonly before: Way | null;
}

/**
 * Visits every state. The models bound themselves: their moves run out.
 *
 * @param maxStates a model that grows beyond this is an error, not a quiet pass
 */
export function explore<State>(model: Model<State>, maxStates = 1_500_000): Exploration {
  const seen = new Set<number>([hash(model.keyOf(model.start))]);
  let level: Node<State>[] = [{ state: model.start, depth: 0, way: null }];
  let depth = 0;
  while (level.length > 0) {
    const nextLevel: Node<State>[] = [];
    for (const node of level) {
      depth = node.depth;
      for (const { label, next } of model.movesOf(node.state)) {
        const way = { label, before: node.way };
        try {
          const state = next();
          const key = hash(model.keyOf(state));
          if (seen.has(key)) continue;
          seen.add(key);
          model.check(state);
          nextLevel.push({ state, depth: node.depth + 1, way });
        } catch (error) {
          if (!(error instanceof Violation)) throw error;
          const text = `${error.message}\n${print(way)}`;
          return {
            states: seen.size,
            depth: depth + 1,
            violation: { invariant: error.invariant, text },
          };
        }
      }
    }
    if (seen.size > maxStates) throw new Error(`more than ${maxStates} states`);
    level = nextLevel;
  }
  return { states: seen.size, depth, violation: null };
}

function print(way: Way): string {
  const lines: string[] = [];
  for (let step: Way | null = way; step !== null; step = step.before) lines.unshift(step.label);
  return lines.map((line, index) => `  ${String(index + 1).padStart(2)}. ${line}`).join('\n');
}

/** 53 bits out of two 32-bit hashes (FNV-1a and a multiplicative one): a state is its hash. */
export function hash(text: string): number {
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ code, 0x85ebca6b);
    b ^= b >>> 13;
  }
  return (a >>> 0) * 0x200000 + ((b ^ (b >>> 16)) >>> 11);
}
