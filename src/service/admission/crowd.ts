/** The time for which an organization counts as active after its last run. */
const activeMs = 10_000;

/**
 * Which organizations were active lately. While the processors have too much to do, an organization that
 * has company gets fewer slots, and its long runs read one at a time. One that is alone uses everything.
 */
export class Crowd {
  readonly #seen = new Map<string, number>();
  readonly #isPressed: () => boolean;
  readonly #now: () => number;

  /**
   * @param isPressed whether processors have too much to do
   * @param now a clock in ms that never goes back
   */
  constructor(isPressed: () => boolean, now: () => number) {
    this.#isPressed = isPressed;
    this.#now = now;
  }

  /** Notes organizations whose runs wait or execute. */
  see(organizationIds: Iterable<string>): void {
    const now = this.#now();
    for (const id of organizationIds) this.#seen.set(id, now);
    for (const [id, at] of this.#seen) if (now - at > activeMs) this.#seen.delete(id);
  }

  /** Says whether the organization must leave room to others now. */
  isCrowding(organizationId: string): boolean {
    return this.#isPressed() && this.companyOf(organizationId).length > 0;
  }

  /** The organizations that are active, if those that have company must leave room now; otherwise null. */
  company(): readonly string[] | null {
    return this.#isPressed() ? this.#active() : null;
  }

  /** The other organizations that are active. */
  companyOf(organizationId: string): readonly string[] {
    return this.#active().filter((id) => id !== organizationId);
  }

  #active(): readonly string[] {
    const since = this.#now() - activeMs;
    return [...this.#seen].flatMap(([id, at]) => (at >= since ? [id] : []));
  }
}
