import { SluiceError } from '../foundation/domain/errors.ts';
import type { SourceState } from '../rows/sources/source.ts';
import { isDatabaseUnavailable } from '../state/store/database/unavailable.ts';
import { readNow } from '../state/store/intervals/ticks.ts';
import type { Foundation } from './foundation.ts';

/** How often each source is checked. */
const everyMs = 30_000;
/** A check that takes longer has failed. */
const patienceMs = 10_000;

export interface SourceWatch {
  /** What keeps models from being exported or settled, as a sentence; null if nothing does. */
  fault(): string | null;
  close(): Promise<void>;
}

/** Checks the database of every model regularly, for the metrics and for readiness. */
export function watchSources({
  db,
  logger,
  metrics,
  models,
  sourceOf,
}: Pick<Foundation, 'db' | 'logger' | 'metrics' | 'models' | 'sourceOf'>): SourceWatch {
  const faults = new Map<string, string>();
  const stopped = new AbortController();

  const look = async (model: string): Promise<SourceState['findings']> => {
    const signal = AbortSignal.any([stopped.signal, AbortSignal.timeout(patienceMs)]);
    const state = await sourceOf(model).inspect(signal);
    const { findings, clockMs, oldestSnapshotSeconds, replayLagSeconds } = state;
    metrics.source.oldestSnapshotSeconds.set({ model }, oldestSnapshotSeconds);
    const offsetSeconds = (clockMs - (await readNow(db))) / 1_000;
    metrics.source.clockOffsetSeconds.set({ model }, offsetSeconds);
    if (replayLagSeconds !== null) metrics.source.replayLagSeconds.set({ model }, replayLagSeconds);
    return findings;
  };
  /** @returns what is wrong; empty if nothing is */
  const check = async (model: string): Promise<string> => {
    try {
      const findings = await look(model);
      return findings.map(({ detail }) => detail).join(' ');
    } catch (error) {
      if (isDatabaseUnavailable(error)) throw error;
      return unreachable(codeOf(error));
    }
  };
  const lookAtAll = async () => {
    for (const { name } of models.map(({ model }) => model)) {
      const found = await check(name);
      if (stopped.signal.aborted) return;
      if (found !== '' && found !== faults.get(name)) logger.warn({ model: name }, found);
      if (found === '') faults.delete(name);
      else faults.set(name, found);
    }
  };

  let looking: Promise<void> | null = null;
  const watch = () => {
    // Without our own database nothing is known of the sources; it has its own line and metric.
    looking ??= lookAtAll()
      .catch(() => {})
      .finally(() => {
        looking = null;
      });
  };
  watch();
  const timer = setInterval(watch, everyMs);
  timer.unref();
  return {
    fault: () => {
      const all = [...faults].map(([model, fault]) => `${model}: ${fault}`);
      return all.length === 0 ? null : all.join(' ');
    },
    async close() {
      clearInterval(timer);
      stopped.abort();
      await looking;
    },
  };
}

const unreachable = (why: string): string =>
  `The source is unreachable${why === '' ? '' : ` (${why})`}.`;

/** The detail names no host. */
function codeOf(error: unknown): string {
  if (!(error instanceof SluiceError)) return '';
  return error.detail === undefined ? error.code : `${error.code}: ${error.detail}`;
}
