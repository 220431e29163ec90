import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';

/** Who owns exports, and where they are made. */
export interface Tenant {
  readonly team: number;
  readonly key: string;
  /** Ends in `/batch_exports/`. */
  readonly exports: string;
}

export interface MadeExport {
  readonly id: string;
  readonly key: string;
  readonly url: string;
}

export interface Range {
  readonly start_at: string;
  readonly end_at: string;
}

/** Calls to the API at a time. */
const callsAtOnce = 4;

/** Makes hourly exports, one after the other of each tenant in turn. */
export function createExports(
  tenants: readonly Tenant[],
  count: number,
  destination: object,
): Promise<readonly MadeExport[]> {
  const owners = Array.from({ length: count }, (_, n) => tenants[n % tenants.length]);
  return someAtOnce(owners, async (owner, n) => {
    if (!owner) throw new Error('no tenant');
    const { key, exports } = owner;
    const wanted = {
      ...{ name: `Export ${n}`, interval: 'hour', end_at: '2030-01-01T00:00:00Z' },
      destination,
    };
    const { id } = await post(key, exports, wanted);
    return { id, key, url: `${exports}${id}/` };
  });
}

/**
 * Backfills exports at once, and waits until all has ended.
 *
 * @param concurrency of each; null: as the installation does by itself
 */
export async function backfill(
  pool: pg.Pool,
  exports: readonly MadeExport[],
  range: Range,
  concurrency: number | null,
): Promise<void> {
  await someAtOnce(exports, ({ key, url }) =>
    post(key, `${url}backfill/`, { ...range, ...(concurrency !== null && { concurrency }) }),
  );
  await untilBackfilled(pool);
}

/** Waits until no backfill of the installation is in progress. */
export async function untilBackfilled(pool: pg.Pool): Promise<void> {
  for (let left = 1; left > 0; await sleep(50)) {
    const { rows } = await pool.query<{ left: number }>(
      `select count(*)::int as left from backfills where status = 'Running'`,
    );
    left = rows[0]?.left ?? 0;
  }
}

async function someAtOnce<Item, Result>(
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<Result>,
): Promise<readonly Result[]> {
  const waiting = [...items.entries()];
  const done: Result[] = [];
  const call = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      done[next[0]] = await work(next[1], next[0]);
    }
  };
  await Promise.all(Array.from({ length: callsAtOnce }, call));
  return done;
}

/** Posts JSON. @throws on an answer that is no success */
export async function post(key: string, url: string, body: object): Promise<{ id: string }> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as { id: string };
}
