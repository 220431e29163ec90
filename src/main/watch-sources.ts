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
  /** What keeps models from being exported, as a sentence; null if nothing does. Warnings are in the log and in `models check`. */
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
  /** By model; empty: none. */
  const faults = new Map<string, string>();
  const logged = new Map<string, string>();
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
  const check = async (model: string): Promise<SourceState['findings']> => {
    try {
      return await look(model);
    } catch (error) {
      if (isDatabaseUnavailable(error)) throw error;
      return [{ severity: 'error', detail: unreachable(codeOf(error)) }];
    }
  };
  const lookAtAll = async () => {
    for (const { name } of models.map(({ model }) => model)) {
      const findings = await check(name);
      if (stopped.signal.aborted) return;
      const text = textOf(findings);
      if (text !== '' && text !== logged.get(name)) logger.warn({ model: name }, text);
      logged.set(name, text);
      faults.set(name, textOf(findings.filter(({ severity }) => severity === 'error')));
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
      const all = [...faults]
        .filter(([, fault]) => fault !== '')
        .map(([model, fault]) => `${model}: ${fault}`);
      return all.length === 0 ? null : all.join(' ');
    },
    async close() {
      clearInterval(timer);
      stopped.abort();
      await looking;
    },
  };
}

const textOf = (findings: SourceState['findings']): string =>
  findings.map(({ detail }) => detail).join(' ');

const unreachable = (why: string): string =>
  `The source is unreachable${why === '' ? '' : ` (${why})`}.`;

/** The detail names no host. */
function codeOf(error: unknown): string {
  if (!(error instanceof SluiceError)) return '';
  return error.detail === undefined ? error.code : `${error.code}: ${error.detail}`;
}
