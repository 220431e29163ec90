import { SluiceError } from '../foundation/domain/errors.ts';
import type { Source, SourceState } from '../rows/sources/source.ts';
import { isDatabaseUnavailable } from '../state/store/database/unavailable.ts';
import { readNow } from '../state/store/intervals/ticks.ts';
import { listModelsAtWork } from '../state/store/runs/runs.ts';
import type { Foundation } from './foundation.ts';

/** The pause between two checks of each source while runs read it. */
const usualEveryMs = 30_000;
/** A check that takes longer has failed. */
const patienceMs = 10_000;

export interface SourceWatch {
  /** A sentence about the fault that keeps models from being exported; null if there is none. Warnings are in the log and in `models check`. */
  fault(): string | null;
  close(): Promise<void>;
}

/** Checks each database of models at the start, then while runs need it or something is wrong: a server that sleeps goes on sleeping. */
export function watchSources(
  foundation: Pick<Foundation, 'db' | 'logger' | 'metrics' | 'models' | 'sourceOf'>,
  everyMs = usualEveryMs,
): SourceWatch {
  const { db, logger, metrics, models, sourceOf } = foundation;
  const faults = new Map<Source, string>();
  const logged = new Map<Source, string>();
  const stopped = new AbortController();

  const bySource = new Map<Source, string[]>();
  for (const { name } of models.map(({ model }) => model)) {
    const source = sourceOf(name);
    bySource.set(source, [...(bySource.get(source) ?? []), name]);
  }

  const look = async (source: Source, names: readonly string[]) => {
    const signal = AbortSignal.any([stopped.signal, AbortSignal.timeout(patienceMs)]);
    try {
      const state = await source.inspect(signal);
      const { findings, clockMs, oldestSnapshotSeconds, replayLagSeconds } = state;
      const offsetSeconds = (clockMs - (await readNow(db))) / 1_000;
      for (const model of names) {
        metrics.source.oldestSnapshotSeconds.set({ model }, oldestSnapshotSeconds);
        metrics.source.clockOffsetSeconds.set({ model }, offsetSeconds);
        if (replayLagSeconds !== null)
          metrics.source.replayLagSeconds.set({ model }, replayLagSeconds);
      }
      return findings;
    } catch (error) {
      if (isDatabaseUnavailable(error)) throw error;
      return [{ severity: 'error' as const, detail: unreachable(error) }];
    }
  };
  const lookAtAll = async () => {
    const atWork = await listModelsAtWork(db);
    for (const [source, names] of bySource) {
      const isWell = faults.get(source) === '';
      if (isWell && !names.some((name) => atWork.has(name))) continue;
      const findings = await look(source, names);
      if (stopped.signal.aborted) return;
      const text = textOf(findings);
      if (text !== '' && text !== logged.get(source)) logger.warn({ models: names }, text);
      logged.set(source, text);
      faults.set(source, textOf(findings.filter(({ severity }) => severity === 'error')));
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
        .map(([source, fault]) => `${bySource.get(source)?.join(', ')}: ${fault}`);
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

/** The detail names no host. */
function unreachable(error: unknown): string {
  if (!(error instanceof SluiceError)) return 'The source is unreachable.';
  const { code, detail } = error;
  return `The source is unreachable (${detail === undefined ? code : `${code}: ${detail}`}).`;
}
