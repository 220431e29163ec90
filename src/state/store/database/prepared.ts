const names = new Map<string, string>();
const usual = 'sluice_';
const once = 'sluice_once_';

/** For what requests send often: each connection parses it once, and keeps it, so there may be few. @returns the text */
export const prepared = (text: string): string => named(text, usual);

/** As `prepared`, on a few connections, which plan it once: PostgreSQL would plan it for the first five values on each. @returns the text */
export const plannedOnce = (text: string): string => named(text, once);

function named(text: string, prefix: string): string {
  if (!names.has(text)) names.set(text, `${prefix}${names.size}`);
  return text;
}

export const isPlannedOnce = (text: string): boolean => names.get(text)?.startsWith(once) === true;

/** A condition, always true: the transaction does not wait for the disk. For what may be lost in a crash of the server. */
export const unflushed = `set_config('synchronous_commit', 'off', true) is not null`;

/** SQL: whether a SELECT has a row. Planned once, an EXISTS may read all of a table that was almost empty. @param from from its FROM on */
export const isAny = (from: string): string => `(select true ${from} limit 1) is true`;

/** A limit above all that are ever asked for. The planner does not know it, so it keeps one plan for any number. */
export const anyNumber = 'limit (select 2147483647)';

const featureNotSupported = '0A000';

/** A statement that is prepared belongs to a session. Behind a pooler the next one may be another: there names are off. */
export class StatementNames {
  #use: 'unknown' | 'on' | 'off' = 'unknown';

  /** @param isOwn whether a new connection has a session of the server to itself */
  learn(isOwn: boolean): void {
    if (!isOwn) this.#use = 'off';
    else if (this.#use === 'unknown') this.#use = 'on';
  }

  /** True if statements have names now: not before the first connection was made. */
  get areUsed(): boolean {
    return this.#use === 'on';
  }

  of(text: string): string | undefined {
    return this.#use === 'on' ? names.get(text) : undefined;
  }

  /** A migration that changes the type of a result makes prepared statements fail: then they are given up. */
  noteError(error: unknown): void {
    if ((error as { code?: unknown }).code === featureNotSupported) this.#use = 'off';
  }
}
