import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';

/** The API of the installation that is measured. */
export interface Service {
  readonly pool: pg.Pool;
  /** Ends in `/batch_exports/`. */
  readonly api: string;
  readonly key: string;
}

export interface Range {
  readonly start_at: string;
  readonly end_at: string;
}

export async function createExports(
  service: Service,
  count: number,
  destination: object,
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const made = {
      name: `Export ${n}`,
      interval: 'hour',
      end_at: '2030-01-01T00:00:00Z',
      destination,
    };
    ids.push((await post(service.key, service.api, made)).id);
  }
  return ids;
}

/** Backfills exports at once, and waits until all has ended. */
export async function backfill(
  service: Service,
  exportIds: readonly string[],
  range: Range,
  concurrency: number,
): Promise<void> {
  for (const id of exportIds) {
    await post(service.key, `${service.api}${id}/backfill/`, { ...range, concurrency });
  }
  await untilBackfilled(service.pool);
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
