import type { Grouped } from './grouped.ts';

interface Group<Item, Result> {
  readonly grouped: Grouped<Item, Result>;
  ended: Promise<void>;
  calls: number;
}

/** Sends calls with the same key together, as `Grouped` does. Calls with different keys do not wait for each other. */
export class KeyedGroups<Item, Result> {
  readonly #open: () => Grouped<Item, Result>;
  readonly #groups = new Map<string, Group<Item, Result>>();

  constructor(open: () => Grouped<Item, Result>) {
    this.#open = open;
  }

  async take(key: string, item: Item): Promise<Result> {
    const group = this.#groups.get(key) ?? {
      grouped: this.#open(),
      ended: Promise.resolve(),
      calls: 0,
    };
    this.#groups.set(key, group);
    group.calls += 1;
    const result = group.grouped.take(item).finally(() => {
      group.calls -= 1;
      if (group.calls === 0) this.#groups.delete(key);
    });
    group.ended = Promise.allSettled([group.ended, result]).then(() => {});
    return result;
  }

  /** Resolves when the calls of a key that are in progress now have ended. */
  async ended(key: string): Promise<void> {
    await this.#groups.get(key)?.ended;
  }
}
