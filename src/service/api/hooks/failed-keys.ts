import { Throttled } from '../../../foundation/domain/problem.ts';
import { networkOf } from '../network-of.ts';

/** Finds which of these hashes belong to keys that exist and have not ended, as hexadecimal text. */
export type FindKnown = (hashes: readonly Buffer[]) => Promise<ReadonlySet<string>>;

/** An attempt to authenticate that may ask the database. */
export interface KeyAttempt {
  /** The key was valid. */
  succeeded(): void;
  /** The key was not valid. */
  failed(): void;
}

interface Bucket {
  left: number;
  /** On this process' steady clock, milliseconds. */
  at: number;
}

interface Waiting {
  readonly address: string;
  readonly hash: Buffer;
  readonly resolve: (known: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** Oldest entries beyond this are forgotten, so that an attacker cannot fill our memory. */
const maxRemembered = 10_000;
/** Keys of limited addresses that wait for the next shared look-up. */
const maxWaiting = 512;
const maxWaitingPerAddress = 32;
const screenEveryMs = 200;

/**
 * Limits failed authentication per address before the database is asked. A limited address gets 429 for
 * keys that are not valid. Valid keys still pass: those that this process has seen at once, others after a
 * look-up that all limited addresses share, at most five times per second.
 */
export class FailedKeys {
  readonly #perMinute: number;
  readonly #findKnown: FindKnown;
  readonly #buckets = new Map<string, Bucket>();
  readonly #valid = new Map<string, true>();
  #waiting: Waiting[] = [];
  #screening = false;

  /** @param perMinute failures of one address per minute */
  constructor(perMinute: number, findKnown: FindKnown) {
    this.#perMinute = perMinute;
    this.#findKnown = findKnown;
  }

  /**
   * Call it before the database is asked about a key.
   *
   * @throws Throttled if the address is limited and the key is not known
   */
  async begin(ip: string, hash: Buffer): Promise<KeyAttempt> {
    const address = networkOf(ip);
    const id = hash.toString('hex');
    const paid = !this.#valid.has(id) && this.#take(address);
    if (!paid && !this.#valid.has(id) && !(await this.#screen(address, hash))) {
      throw this.#tooMany(address);
    }
    return {
      succeeded: () => {
        if (paid) this.#bucketOf(address).left += 1;
        remember(this.#valid, id, true);
      },
      failed: () => {
        this.#valid.delete(id);
      },
    };
  }

  /** Counts a failure that needs no look-up. @throws Throttled if the address is limited */
  countMalformed(ip: string): void {
    const address = networkOf(ip);
    if (!this.#take(address)) throw this.#tooMany(address);
  }

  #take(address: string): boolean {
    const bucket = this.#bucketOf(address);
    if (bucket.left < 1) return false;
    bucket.left -= 1;
    return true;
  }

  #bucketOf(address: string): Bucket {
    const now = performance.now();
    const bucket = this.#buckets.get(address) ?? { left: this.#perMinute, at: now };
    const gained = ((now - bucket.at) / 60_000) * this.#perMinute;
    bucket.left = Math.min(this.#perMinute, bucket.left + gained);
    bucket.at = now;
    remember(this.#buckets, address, bucket);
    return bucket;
  }

  #screen(address: string, hash: Buffer): Promise<boolean> {
    const own = this.#waiting.filter((waiting) => waiting.address === address).length;
    if (own >= maxWaitingPerAddress || this.#waiting.length >= maxWaiting) {
      return Promise.resolve(false);
    }
    const answer = new Promise<boolean>((resolve, reject) => {
      this.#waiting.push({ address, hash, resolve, reject });
    });
    if (!this.#screening) this.#schedule();
    return answer;
  }

  #schedule(): void {
    this.#screening = true;
    setTimeout(() => void this.#lookUp(), screenEveryMs).unref();
  }

  async #lookUp(): Promise<void> {
    const batch = this.#waiting;
    this.#waiting = [];
    try {
      const knownHashes = await this.#findKnown(batch.map(({ hash }) => hash));
      for (const { hash, resolve } of batch) resolve(knownHashes.has(hash.toString('hex')));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
    this.#screening = false;
    if (this.#waiting.length > 0) this.#schedule();
  }

  #tooMany(address: string): Throttled {
    const missing = Math.max(0, 1 - this.#bucketOf(address).left);
    const seconds = Math.max(1, Math.ceil((missing * 60) / this.#perMinute));
    const detail = `Too many requests of this address had an API key that is not valid. Check the key, and try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`;
    return new Throttled(detail, seconds * 1_000);
  }
}

/** Adds the newest entry, and forgets the oldest if there are too many. */
function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > maxRemembered && oldest !== undefined) map.delete(oldest);
}
