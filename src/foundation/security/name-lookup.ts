import { promises as dns, type LookupAddress } from 'node:dns';

export interface NameLookup {
  /** @param tenant has few lookups at a time @throws an error with the code of Node's resolvers, such as ENOTFOUND */
  resolve(name: string, tenant: string): Promise<readonly LookupAddress[]>;
}

export interface NameLookupOptions {
  readonly servers?: readonly string[];
  /** For all tries of one lookup. */
  readonly patienceMs?: number;
}

const perTenant = 4;

const maxWaiting = 64;

/** Maximum addresses of a name. An answer has room for thousands. */
const maxAddresses = 100;

const maxNames = 2_000;

const minTtlMs = 1_000;
const maxTtlMs = 5 * 60_000;
/** A failure is kept too, so that a name that never answers is not asked for by each request. */
const failureTtlMs = 5_000;

/** If one family has answered, the other one is not waited for longer. */
const otherFamilyMs = 300;

type Answer = { readonly addresses: readonly LookupAddress[] } | { readonly error: Error };

interface Kept {
  readonly answer: Answer;
  readonly until: number;
}

/** By c-ares: `dns.lookup` has four threads, and a few names whose server never answers would block all connections. */
export function createNameLookup(options: NameLookupOptions = {}): NameLookup {
  const { patienceMs = 5_000, servers } = options;
  const answers = new Map<string, Kept>();
  const pending = new Map<string, Promise<Answer>>();
  const turns = new Turns();

  const cached = (name: string): Answer | null => {
    const entry = answers.get(name);
    return entry && entry.until > performance.now() ? entry.answer : null;
  };
  const keep = (name: string, { ttlMs, ...answer }: Answer & { ttlMs: number }): Answer => {
    answers.delete(name);
    answers.set(name, { answer, until: performance.now() + ttlMs });
    for (const oldest of answers.keys()) {
      if (answers.size <= maxNames) break;
      answers.delete(oldest);
    }
    return answer;
  };
  const ask = (name: string): Promise<Answer> => {
    const running =
      pending.get(name) ??
      query(name, patienceMs, servers)
        .then((found) => keep(name, found))
        .finally(() => pending.delete(name));
    pending.set(name, running);
    return running;
  };
  return {
    async resolve(given, tenant) {
      const name = given.toLowerCase().replace(/\.$/, '');
      // Looked at again after the wait. Only running queries are shared among tenants.
      const answer = cached(name) ?? (await turns.take(tenant, () => cached(name) ?? ask(name)));
      if ('error' in answer) throw answer.error;
      return answer.addresses;
    },
  };
}

class Turns {
  readonly #tenants = new Map<string, { running: number; readonly waiting: (() => void)[] }>();

  async take<T>(tenant: string, work: () => T | Promise<T>): Promise<T> {
    const own = this.#tenants.get(tenant) ?? { running: 0, waiting: [] };
    this.#tenants.set(tenant, own);
    if (own.running < perTenant) own.running += 1;
    else {
      if (own.waiting.length >= maxWaiting) throw failure('ETIMEOUT', 'too many lookups');
      // The one that ends hands its place on.
      await new Promise<void>((resolve) => own.waiting.push(resolve));
    }
    try {
      return await work();
    } finally {
      const next = own.waiting.shift();
      if (next) next();
      else own.running -= 1;
      if (own.running === 0) this.#tenants.delete(tenant);
    }
  }
}

/** Asks for the addresses of both families. Never rejects. */
async function query(
  name: string,
  patienceMs: number,
  servers: readonly string[] | undefined,
): Promise<Answer & { readonly ttlMs: number }> {
  // One per lookup: it reads the system's configuration again, and can be cancelled alone.
  const resolver = new dns.Resolver({ timeout: Math.ceil(patienceMs / 3), tries: 2 });
  if (servers) resolver.setServers(servers);
  const overdue = setTimeout(() => resolver.cancel(), patienceMs);
  const family = async (number: 4 | 6) => {
    const records =
      number === 4
        ? await resolver.resolve4(name, { ttl: true })
        : await resolver.resolve6(name, { ttl: true });
    // The other answer usually comes at the same time.
    setTimeout(() => resolver.cancel(), otherFamilyMs).unref();
    return records.map(({ address, ttl }) => ({ address, family: number, ttl }));
  };
  try {
    const settled = await Promise.allSettled([family(4), family(6)]);
    const records = settled.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    if (records.length > maxAddresses) {
      return { error: failure('EBADRESP', `${name} has too many addresses`), ttlMs: failureTtlMs };
    }
    if (records.length > 0) {
      const ttlMs = Math.min(...records.map(({ ttl }) => ttl * 1_000), maxTtlMs);
      const addresses = records.map(({ address, family: number }) => ({ address, family: number }));
      return { addresses, ttlMs: Math.max(ttlMs, minTtlMs) };
    }
    const reasons = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    return { error: describeFailure(name, reasons), ttlMs: failureTtlMs };
  } finally {
    clearTimeout(overdue);
  }
}

/** A name without addresses is as unknown as one that does not exist. */
function describeFailure(name: string, reasons: readonly unknown[]): Error {
  const codes = reasons.map((reason) => (reason as NodeJS.ErrnoException).code ?? 'EBADRESP');
  const unknown = codes.every((code) => code === 'ENOTFOUND' || code === 'ENODATA');
  if (unknown) return failure('ENOTFOUND', name);
  const code = codes.find((each) => each !== 'ENOTFOUND' && each !== 'ENODATA') ?? 'EBADRESP';
  return failure(code === 'ECANCELLED' ? 'ETIMEOUT' : code, name);
}

function failure(code: string, what: string): Error {
  return Object.assign(new Error(`${code}: ${what}`), { code });
}
