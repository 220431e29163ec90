import { setTimeout as delay } from 'node:timers/promises';

/** A call does nothing while the previous one still runs. */
export function skipWhileBusy(work: () => Promise<void>): () => Promise<void> {
  let busy = false;
  return async () => {
    if (busy) return;
    busy = true;
    try {
      await work();
    } finally {
      busy = false;
    }
  };
}

/** Does what `shareNext` does, for each id by itself. */
export function shareNextById(work: (id: string) => Promise<void>): (id: string) => Promise<void> {
  const working = new Map<string, { calls: number; readonly call: () => Promise<void> }>();
  return async (id) => {
    const own = working.get(id) ?? { calls: 0, call: shareNext(() => work(id)) };
    working.set(id, own);
    own.calls += 1;
    try {
      await own.call();
    } finally {
      own.calls -= 1;
      if (own.calls === 0) working.delete(id);
    }
  };
}

/** Calls during one execution share the next one. */
export function shareNext(work: () => Promise<void>): () => Promise<void> {
  let current: Promise<void> | null = null;
  let next: Promise<void> | null = null;
  const start = (): Promise<void> => {
    next = null;
    const started = work().finally(() => {
      if (current === started) current = null;
    });
    current = started;
    return started;
  };
  return () => {
    if (current === null) return start();
    next ??= current.then(start, start);
    return next;
  };
}

/** Small runs that end shortly one after the other share what follows their ends. */
const paceMs = 10;
/** The pace while all callers can wait. */
const slowPaceMs = 50;
/** Work that takes long, because much waits, begins again after this many times as long. */
const paceFactor = 2;
/** The longest such pace. */
const maxPaceMs = 1_000;

/**
 * Calls share an execution that begins later: at the earliest when the one before has ended, `paceMs` after it began, or twice
 * as long after as it took. As long as all callers can wait, `slowPaceMs` after it began.
 *
 * @returns a call; `canWait`: it need not begin soon
 */
export function paced(work: () => Promise<void>): (canWait?: boolean) => Promise<void> {
  let last: Promise<void> = Promise.resolve();
  let begunAt = Number.NEGATIVE_INFINITY;
  let tookMs = 0;
  let next: { readonly ended: Promise<void>; readonly hurry: () => void } | null = null;
  const untilSince = (ms: number) => delay(Math.max(0, begunAt + ms - performance.now()));
  const executeAfter = async (before: Promise<void>, hurried: Promise<void>): Promise<void> => {
    await before.catch(() => {});
    await untilSince(Math.max(paceMs, Math.min(maxPaceMs, paceFactor * tookMs)));
    await Promise.race([hurried, untilSince(slowPaceMs)]);
    next = null;
    begunAt = performance.now();
    try {
      await work();
    } finally {
      tookMs = performance.now() - begunAt;
    }
  };
  const share = () => {
    let hurry = () => {};
    const hurried = new Promise<void>((resolve) => {
      hurry = resolve;
    });
    const ended = executeAfter(last, hurried);
    last = ended;
    return { ended, hurry };
  };
  return (canWait = false) => {
    next ??= share();
    if (!canWait) next.hurry();
    return next.ended;
  };
}
