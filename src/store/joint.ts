/** Sends what runs of one moment ask for in one statement, which waits for no lock. */
export interface Joint<Item, Result> {
  /** @returns null if the item's rows are locked or change at this moment: send it alone */
  take(item: Item): Promise<Result | null>;
}
