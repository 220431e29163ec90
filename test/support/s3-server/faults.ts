import { randomOf } from '../random.ts';
import type { OperationName } from './operations.ts';
import type { S3Request } from './request.ts';

export type FaultEffect =
  /** An error answer before any work; the code may be unknown to the catalogue. */
  | {
      status: number;
      code: string;
      message?: string;
      details?: Record<string, string>;
      headers?: Record<string, string>;
    }
  /**
   * Waits, then continues as usual. The work is dropped if the client disconnects meanwhile, unless
   * `outlivesClient` says that the request takes effect anyway.
   */
  | { delayMs: number; outlivesClient?: boolean }
  /** Resets the connection after this many bytes of the body: the request's for an upload, else the answer's. */
  | { resetAfterBytes: number }
  /** Reads nothing, answers nothing, keeps the connection open. */
  | { halfOpen: true }
  /** Reads an upload's body, or writes a download's, at this many bytes per second. */
  | { trickleBytesPerSecond: number }
  /** Status 200 with an error document, no work done: what CompleteMultipartUpload and copies may do. */
  | { okWithError: string }
  /** Does the work, then resets the connection instead of answering. */
  | { loseResponse: true }
  /** Does the work, announces the answer's whole length, and ends the connection after this many bytes of its body. */
  | { cutBodyAfterBytes: number }
  /** Answers in the store's place, as a proxy does: no work, no error document. */
  | { foreignAnswer: ForeignAnswer };

export interface ForeignAnswer {
  readonly status: number;
  readonly body: string;
  readonly contentType?: string;
  readonly etag?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Chunked, and the connection ends without the last chunk. */
  readonly unended?: boolean;
}

export interface Fault {
  match: {
    operation?: OperationName;
    bucket?: string;
    key?: RegExp;
    /** Only the n-th request (from 1) that fits the rest, counted since the fault was added. */
    nth?: number;
  };
  /** How often it acts; default 1, or without end if a probability is given. */
  times?: number;
  /** Chance for each fitting request, from the server's seeded generator; default 1. */
  probability?: number;
  effect: FaultEffect;
}

export interface ActiveFault {
  /** How often it has acted. */
  readonly hits: number;
  remove(): void;
}

export interface FaultPlan {
  add(fault: Fault): ActiveFault;
  clear(): void;
}

class Rule implements ActiveFault {
  readonly fault: Fault;
  readonly #random: () => number;
  readonly #plan: Set<Rule>;
  #seen = 0;
  #left: number;
  hits = 0;

  constructor(fault: Fault, random: () => number, plan: Set<Rule>) {
    this.fault = fault;
    this.#random = random;
    this.#plan = plan;
    const endless = fault.probability !== undefined ? Number.POSITIVE_INFINITY : 1;
    this.#left = fault.times ?? endless;
  }

  strikes({ operation, bucket, key }: S3Request): boolean {
    const { match, probability = 1 } = this.fault;
    if (this.#left <= 0) return false;
    if (match.operation !== undefined && match.operation !== operation) return false;
    if (match.bucket !== undefined && match.bucket !== bucket) return false;
    // search() and not test(): a RegExp with the g flag would remember where it stopped.
    if (match.key && (key === undefined || key.search(match.key) < 0)) return false;
    this.#seen += 1;
    if (match.nth !== undefined && match.nth !== this.#seen) return false;
    if (probability < 1 && this.#random() >= probability) return false;
    this.#left -= 1;
    this.hits += 1;
    return true;
  }

  remove(): void {
    this.#plan.delete(this);
  }
}

/** The plan. For the server it finds the fault of a request: the first rule that matches. */
export function createFaultPlan(): FaultPlan & {
  effectOn(request: S3Request): FaultEffect | null;
} {
  const random = randomOf(1, 'store').next;
  const rules = new Set<Rule>();
  return {
    add(fault) {
      const rule = new Rule(fault, random, rules);
      rules.add(rule);
      return rule;
    },
    clear: () => rules.clear(),
    effectOn(request) {
      for (const rule of rules) if (rule.strikes(request)) return rule.fault.effect;
      return null;
    },
  };
}
