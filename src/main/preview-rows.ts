import { SluiceError } from '../foundation/domain/errors.ts';
import { readFileSettings } from '../foundation/domain/file-settings.ts';
import type { Column } from '../foundation/domain/row-block.ts';
import { jsonLines, jsonOfField, openEncoder } from '../rows/encoders/index.ts';
import { previewRows, type RawSample, sampleRows } from '../rows/pipeline/preview-rows.ts';
import type { CompareRows, PreviewRows, SampleRows } from '../service/api/options.ts';
import { compareRows } from '../service/use-cases/backfills/compare-rows.ts';
import type { Context } from '../service/use-cases/context.ts';
import { sourceRequestOf } from '../service/use-cases/runs/source-request.ts';
import { openChain } from '../service/use-cases/transformations/open-chain.ts';
import { readNow } from '../state/store/intervals/ticks.ts';
import { findTenantKey } from '../state/store/tenants/tenants.ts';
import { findChain } from '../state/store/transformations/chains.ts';
import type { Foundation } from './foundation.ts';
import { joinSources, type SourceOf } from './models.ts';

/** Rows for people to look at: like a run reads them, with short limits. */
export interface Previews {
  /** Sources with the limits of previews. */
  readonly sourceOf: SourceOf;
  readonly previewRows: PreviewRows;
  readonly compareRows: CompareRows;
  readonly sampleRows: (...asked: Parameters<SampleRows>) => Promise<RawSample>;
}

/** What previews need of their process. */
interface PreviewOptions extends Pick<Foundation, 'config' | 'models' | 'sourceConnections'> {
  readonly context: Pick<Context, 'db' | 'secrets'>;
  /** For models without their own database. */
  readonly databases: Pick<Foundation['databases'], 'sourceUrl'>;
}

/** Sources with short limits. */
function previewSources(
  { config, models, sourceConnections, databases }: PreviewOptions,
  patienceMs: number,
): SourceOf {
  return joinSources(config, models, databases.sourceUrl, {
    connections: sourceConnections,
    applicationName: 'sluice-preview',
    connectTimeoutMs: patienceMs / 2,
    roomMs: patienceMs / 4,
    statementTimeoutMs: patienceMs,
    idleTimeoutMs: patienceMs,
    // One read from the oldest row on; it stops soon after the wanted rows.
    sliceMs: Number.POSITIVE_INFINITY,
    blockBytes: 1 << 16,
    maxRowBytes: 2 ** 20,
  });
}

/**
 * Connects sources and encoders for previews and samples.
 *
 * @param patienceMs maximum time, since a request waits for it
 */
export function previewsOf(options: PreviewOptions, patienceMs = 10_000): Previews {
  const { context } = options;
  const sourceOf = previewSources(options, patienceMs);
  const asJson = {
    openJsonLines: (columns: readonly Column[]) => openEncoder(jsonLines, null, columns),
    toJson: ({ type }: Column) => jsonOfField(type),
  };
  const patiently = async <T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>) => {
    const patience = new AbortController();
    const giveUp = () => patience.abort(signal.reason);
    signal.addEventListener('abort', giveUp);
    const tooLong = setTimeout(() => patience.abort(new SluiceError('source.timeout')), patienceMs);
    try {
      return await work(patience.signal);
    } finally {
      clearTimeout(tooLong);
      signal.removeEventListener('abort', giveUp);
    }
  };
  return {
    sourceOf,
    previewRows: ({ model, teamId, dslQuery, destination, transformations }, limit, signal) =>
      patiently(signal, async (patience) => {
        const settings = readFileSettings(destination.config);
        const tenantKey = await findTenantKey(context.db, teamId);
        const { interval: _, ...request } = sourceRequestOf(
          { model, tenantKey, dslQuery, ...settings },
          { start: 0, end: 1 },
        );
        const pinned = transformations ? await findChain(context.db, teamId) : [];
        const steps = (await openChain(context, teamId, pinned))?.steps ?? [];
        const now = await readNow(context.db);
        const shown = { request, limit, now, ...asJson, settings };
        return previewRows(sourceOf(model), steps, shown, patience);
      }),
    compareRows: ({ model, teamId, dslQuery, destination }, intervals, signal) =>
      patiently(signal, async (patience) => {
        const tenantKey = await findTenantKey(context.db, teamId);
        const choice = { model, tenantKey, dslQuery, ...readFileSettings(destination.config) };
        const compared = await compareRows(sourceOf(model), choice, intervals, patience);
        signal.throwIfAborted();
        return compared;
      }),
    sampleRows: (model, teamId, limit, signal) =>
      patiently(signal, async (patience) => {
        const now = await readNow(context.db);
        const request = { model, tenantKey: await findTenantKey(context.db, teamId) };
        return sampleRows(sourceOf(model), request, { limit, now, ...asJson }, patience);
      }),
  };
}
