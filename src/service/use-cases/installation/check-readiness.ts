import { within } from '../../../foundation/domain/patience.ts';

const patienceMs = 3_000;

/** Each check returns what is wrong, or null. If it throws, its part is unreachable. */
export interface ReadinessChecks {
  readonly databaseFault: () => Promise<string | null>;
  readonly queueFault: () => Promise<string | null>;
  /** Why no job can ever pass through the queue as it is. Absent: this process does not check that. */
  readonly queueRefusal?: () => Promise<string | null>;
  /** Why no run starts until an operator accepts the database. */
  readonly holdReason: () => Promise<string | null>;
  /** Why no run is executed. Absent: this process does not check the workers. */
  readonly workerFault?: () => Promise<string | null>;
  /** Why models cannot be exported or settled. Absent: this process does not check sources. */
  readonly sourceFault?: () => string | null;
  /** Why no file can be made in the temporary folder. Absent: this process makes none. */
  readonly temporaryFault?: () => Promise<string | null>;
}

export interface Readiness {
  /** Degraded: requests are accepted, and runs start later. Unavailable: also if the queue can carry no job at all. */
  readonly status: 'ok' | 'degraded' | 'unavailable';
  readonly checks: {
    readonly postgres: string;
    readonly queue: string;
    readonly era: string;
    readonly workers?: string;
    readonly source?: string;
    readonly temporary_folder?: string;
  };
}

/** Says whether a process can do its work, and what is wrong if it cannot. Never throws. */
export async function checkReadiness(checks: ReadinessChecks): Promise<Readiness> {
  const [postgres, queueFault, refusal] = await Promise.all([
    faultOf(checks.databaseFault),
    faultOf(checks.queueFault),
    // A queue that is unreachable is a fault, and serves again later.
    checks.queueRefusal?.().catch(() => null) ?? null,
  ]);
  const queue = refusal ?? queueFault;
  const { holdReason, workerFault, temporaryFault } = checks;
  const era = postgres === null ? await faultOf(holdReason) : null;
  const workers = postgres === null && workerFault ? await faultOf(workerFault) : null;
  const source = checks.sourceFault?.() ?? null;
  const temporary = temporaryFault ? await faultOf(temporaryFault) : null;
  const isWhole = [queue, source, era, workers, temporary].every((fault) => fault === null);
  return {
    status: postgres !== null || refusal !== null ? 'unavailable' : isWhole ? 'ok' : 'degraded',
    checks: {
      postgres: postgres ?? 'ok',
      queue: queue ?? 'ok',
      era: era ?? 'ok',
      ...(workerFault ? { workers: workers ?? 'ok' } : {}),
      ...(checks.sourceFault ? { source: source ?? 'ok' } : {}),
      ...(temporaryFault ? { temporary_folder: temporary ?? 'ok' } : {}),
    },
  };
}

async function faultOf(check: () => Promise<string | null>): Promise<string | null> {
  try {
    return await within(patienceMs, check(), `no answer within ${patienceMs} ms`);
  } catch (error) {
    // The probe needs no key: its answer must not contain addresses or names.
    const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
    return `unreachable${code}`;
  }
}

const freshMs = 1_000;

/** Returns the same check, but at most one runs at a time, and its answer is used for a second. */
export function shareReadiness(check: () => Promise<Readiness>): () => Promise<Readiness> {
  let latest: { readonly answer: Promise<Readiness>; endsAt: number } | null = null;
  return () => {
    if (latest && performance.now() < latest.endsAt) return latest.answer;
    const current = { answer: check(), endsAt: Number.POSITIVE_INFINITY };
    latest = current;
    const end = () => {
      current.endsAt = performance.now() + freshMs;
    };
    current.answer.then(end, end);
    return current.answer;
  };
}
