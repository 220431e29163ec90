import type { PreviewRows } from '../api/options.ts';
import type { Config } from '../config/config.ts';
import type { SourcedModel } from '../config/models-file.ts';
import { SluiceError } from '../domain/errors.ts';
import { readFileSettings } from '../domain/file-settings.ts';
import { jsonLines, openEncoder } from '../encoders/index.ts';
import { previewRows } from '../pipeline/preview-rows.ts';
import { ConnectionLimit } from '../sources/index.ts';
import type { Sql } from '../store/database.ts';
import { readNow } from '../store/ticks.ts';
import { sourceRequestOf } from '../use-cases/runs/source-request.ts';
import { joinSources } from './models.ts';

/** Of all previews of a process, to all sources: as many as there are previews at a time. */
const maxConnections = 8;

/**
 * Connects sources and encoders for the preview: like a run, with short limits.
 *
 * @param sourceUrl for models without their own database
 * @param patienceMs maximum time, since a request waits for it
 */
export function previewRowsOf(
  config: Config,
  models: readonly SourcedModel[],
  sourceUrl: string,
  db: Sql,
  patienceMs = 10_000,
): PreviewRows {
  const sourceOf = joinSources(config, models, sourceUrl, {
    connections: new ConnectionLimit(maxConnections),
    applicationName: 'sluice-preview',
    connectTimeoutMs: patienceMs / 2,
    statementTimeoutMs: patienceMs,
    idleTimeoutMs: patienceMs,
    // One read from the oldest row on; it stops soon after the wanted rows.
    sliceMs: Number.POSITIVE_INFINITY,
    blockBytes: 1 << 16,
    maxRowBytes: 2 ** 20,
  });
  return async ({ model, teamId, dslQuery, destination }, limit, signal) => {
    const patience = new AbortController();
    const giveUp = () => patience.abort(signal.reason);
    signal.addEventListener('abort', giveUp);
    const tooLong = setTimeout(() => patience.abort(new SluiceError('source.timeout')), patienceMs);
    const { interval: _, ...request } = sourceRequestOf(
      { model, teamId, dslQuery, ...readFileSettings(destination.config) },
      { start: 0, end: 1 },
    );
    try {
      return await previewRows(
        sourceOf(model),
        request,
        (columns) => openEncoder(jsonLines, null, columns),
        { limit, now: await readNow(db) },
        patience.signal,
      );
    } finally {
      clearTimeout(tooLong);
      signal.removeEventListener('abort', giveUp);
    }
  };
}
