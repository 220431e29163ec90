import { setTimeout as sleep } from 'node:timers/promises';
import { type ApiAnswer, type ApiClient, createApiClient } from '../support/api-client.ts';
import type { Installation } from '../support/installation.ts';
import { createKey, createTenant } from '../support/tenants.ts';
import { type Attack, attacksOf, type Target } from './attacks.ts';

/** What the attacker was answered, by attack. */
export type Answered = ReadonlyMap<string, ReadonlyMap<string, number>>;

export interface Attacker {
  /** Stops asking. What it started in the service goes on. */
  stop(): Promise<Answered>;
}

/** Of one key: as many as a rate limit of 480 per minute and slow answers need. */
const maxOpen = 24;
const everyMs = 60_000 / 480;
const requestMs = 30_000;

export interface AttackerOptions {
  /** How many; each asks at its full rate limit. */
  readonly keys: number;
  /** Only attacks whose names begin so. */
  readonly only: string;
}

/**
 * One organization with two projects and ordinary keys. Each key asks at its full rate limit, one kind
 * of attack after the other, until it is stopped.
 */
export async function startAttacker(
  installation: Installation,
  stores: readonly string[],
  { keys: count, only }: AttackerOptions,
): Promise<Attacker> {
  const tenant = await createTenant(installation.db);
  const keys = [tenant.key];
  while (keys.length < count) {
    keys.push((await createKey(installation.db, { organizationId: tenant.organizationId })).key);
  }
  const { baseUrl } = installation.client;
  const { organizationId } = tenant;
  const target: Target = {
    organizationId,
    projectIds: tenant.projectIds,
    stores,
    pool: installation.pool,
  };
  const all = await attacksOf(target, createApiClient(baseUrl, tenant.key));
  const attacks = Object.entries(all).filter(([name]) => name.startsWith(only));
  const answered = new Map<string, Map<string, number>>();
  const over = new AbortController();
  const asking = keys.map((key, index) =>
    attackByKey(createApiClient(baseUrl, key), index, attacks, answered, over.signal),
  );
  return {
    async stop() {
      over.abort();
      await Promise.all(asking);
      return answered;
    },
  };
}

async function attackByKey(
  client: ApiClient,
  first: number,
  attacks: readonly (readonly [string, Attack])[],
  answered: Map<string, Map<string, number>>,
  signal: AbortSignal,
): Promise<void> {
  const open = new Set<Promise<void>>();
  for (let turn = first; !signal.aborted; turn += 1) {
    const [name, attack] = attacks[turn % attacks.length] ?? [];
    if (!name || !attack) return;
    if (open.size < maxOpen) {
      const asking: Promise<void> = ask(attack, client, turn)
        .then((what) => note(answered, name, what))
        .finally(() => open.delete(asking));
      open.add(asking);
    }
    await sleep(everyMs, undefined, { signal }).catch(() => {});
  }
  await Promise.race([Promise.all(open), sleep(requestMs)]);
}

async function ask(attack: Attack, client: ApiClient, turn: number): Promise<string> {
  const patience = sleep(requestMs).then(() => 'no answer in 30 s');
  const asked = attack(client, turn)
    .then((answer: ApiAnswer) => String(answer.status))
    .catch((error: unknown) => `broken: ${(error as Error).message}`.slice(0, 40));
  return Promise.race([asked, patience]);
}

function note(answered: Map<string, Map<string, number>>, name: string, what: string): void {
  const counts = answered.get(name) ?? new Map<string, number>();
  answered.set(name, counts);
  counts.set(what, (counts.get(what) ?? 0) + 1);
}
