import { SluiceError } from '../foundation/domain/errors.ts';
import { readFileSettings } from '../foundation/domain/file-settings.ts';
import { usualMode } from '../foundation/domain/model.ts';
import type { Column } from '../foundation/domain/row-block.ts';
import { jsonLines, jsonOfField, openEncoder } from '../rows/encoders/index.ts';
import { givenRows, type NewestRows, previewRows } from '../rows/pipeline/preview-rows.ts';
import type { CompareRows } from '../service/api/options.ts';
import { compareRows } from '../service/use-cases/backfills/compare-rows.ts';
import type { Context } from '../service/use-cases/context.ts';
import { sourceRequestOf } from '../service/use-cases/runs/source-request.ts';
import type { PreviewRows } from '../service/use-cases/transformations/preview-rows.ts';
import { readNow } from '../state/store/intervals/ticks.ts';
import { findTenantKey } from '../state/store/tenants/tenants.ts';
import type { Foundation } from './foundation.ts';
import { joinSources, type SourceOf } from './models.ts';

/** Rows for people to look at: like a run reads them, with short limits. */
export interface Previews {
  readonly sourceOf: SourceOf;
  readonly previewRows: PreviewRows;
  readonly compareRows: CompareRows;
}

interface PreviewOptions extends Pick<Foundation, 'config' | 'models' | 'sourceConnections'> {
  readonly context: Pick<Context, 'db' | 'secrets'>;
  readonly databases: Pick<Foundation['databases'], 'sourceUrl'>;
}

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

/** @param patienceMs maximum time at a source, since a request waits for it */
export function previewsOf(options: PreviewOptions, patienceMs = 10_000): Previews {
  const { context, models } = options;
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
    previewRows: async (asked, inSlot, signal) => {
      const { model, teamId, dslQuery, config, given, steps } = asked;
      const mode = asked.mode ?? usualMode(modelOf(models, model));
      const settings = readFileSettings(config);
      const tenantKey = await findTenantKey(context.db, teamId);
      const { interval: _, ...request } = sourceRequestOf(
        { model, mode, tenantKey, dslQuery, ...settings },
        { start: 0, end: 1 },
      );
      const now = await readNow(context.db);
      const newest: NewestRows = {
        isWhole: mode !== 'append',
        open: async (reachMs, select, patience) => {
          const source = sourceOf(model);
          const start = reachMs === null ? 0 : now - reachMs;
          const snapshotRequest = { ...request, select, interval: { start, end: now } };
          if (mode !== 'changes') return source.open(snapshotRequest, patience);
          // As the rows of a first base.
          const { point } = await source.readSequence(model, tenantKey, patience);
          const { versionType } = point;
          const element = { number: 0, versionType, from: null, newTables: [] };
          return source.open({ ...snapshotRequest, element }, patience);
        },
        patiently: (work) => inSlot(() => patiently(signal, work)),
      };
      const rows = given ? givenRows(given, modelOf(models, model)) : newest;
      const json = { ...asJson, settings };
      // The answer about rows of a caller depends on nothing but these rows.
      return previewRows(steps, { ...asked, rows, now: given ? 0 : now, ...json }, signal);
    },
    compareRows: ({ model, mode, teamId, dslQuery, destination }, intervals, signal) =>
      patiently(signal, async (patience) => {
        const tenantKey = await findTenantKey(context.db, teamId);
        const choice = {
          model,
          mode,
          tenantKey,
          dslQuery,
          ...readFileSettings(destination.config),
        };
        const compared = await compareRows(sourceOf(model), choice, intervals, patience);
        signal.throwIfAborted();
        return compared;
      }),
  };
}

function modelOf(models: Foundation['models'], name: string) {
  const entry = models.find(({ model }) => model.name === name);
  if (!entry) throw new Error(`the validation accepted ${name} as a model`);
  return entry.model;
}
