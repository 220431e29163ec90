/** A group that takes longer no longer holds up the next one. */
const patienceMs = 1_000;

/** Keeps a statement short. */
const maxGroup = 50;

interface Call<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result | PromiseLike<Result>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends calls of the same turn of the event loop together. Those that come while a group is on its way wait and go with
 * the next group. If an item makes its group fail, each item of the group is sent alone, so only that item fails.
 */
export class Grouped<Item, Result> {
  readonly #send: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly #isOfAll: (error: unknown) => boolean;
  #waiting: Call<Item, Result>[] = [];
  #isBusy = false;
  #isDue = false;

  /** @param send must be harmless to repeat @param isOfAll whether an error is not of one item, so that no item is sent alone */
  constructor(
    send: (items: readonly Item[]) => Promise<readonly Result[]>,
    isOfAll: (error: unknown) => boolean,
  ) {
    this.#send = send;
    this.#isOfAll = isOfAll;
  }

  /** @throws what `send` throws for this item alone, or for all of its group */
  take(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#sendSoon();
    });
  }

  /** Callers that one answer has woken ask in the same turn. */
  #sendSoon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.#sendNext();
    });
  }

  #sendNext(): void {
    if (this.#isBusy || this.#waiting.length === 0) return;
    this.#isBusy = true;
    const group = this.#waiting.splice(0, maxGroup);
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
      clearTimeout(patience);
      this.#isBusy = false;
      this.#sendNext();
    };
    const patience = setTimeout(end, patienceMs);
    void this.#sendGroup(group).finally(end);
  }

  async #sendGroup(group: readonly Call<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#send(group.map(({ item }) => item));
      for (const [index, { resolve }] of group.entries()) resolve(results[index] as Result);
    } catch (error) {
      const isOfOneItem = group.length > 1 && !this.#isOfAll(error);
      for (const { item, resolve, reject } of group) {
        if (isOfOneItem) resolve(this.#send([item]).then(([result]) => result as Result));
        else reject(error);
      }
    }
  }
}

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
