import { describeError } from '../../foundation/domain/describe-error.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { unlessAborted } from '../../foundation/domain/patience.ts';
import { inSeconds } from '../../foundation/domain/time.ts';
import type { ExportTable } from '../../rows/pipeline/table-format.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { type Receipt, receiptsAfter } from '../../state/store/intervals/receipts.ts';
import {
  countMissingData,
  type ExportSize,
  findGaps,
  findInconsistentRuns,
  findOverlaps,
  findTornTicks,
  hasLiveRuns,
  listExportPlaces,
  listVerifiedExports,
  sizeExports,
  type VerifiedExport,
} from '../../state/store/intervals/verify-queries.ts';
import { findStrays, type StrayPlace } from './find-strays.ts';
import { breachesOf, type Finding } from './finding.ts';
import { type PlaceOf, Places } from './places.ts';
import { describeCounted, openReplay } from './replay.ts';
import { nothingVerified, Sums, type Verified } from './sums.ts';
import { rowSums } from './verified-interval.ts';
import { type ReceiptOptions, verifyReceipt } from './verify-receipt.ts';

export interface VerifiedExportReport extends Verified {
  readonly id: string;
  readonly name: string;
  readonly findings: readonly Finding[];
  readonly breaches: number;
  /** Why it could not be read to its end, with the remedy; null if it was. */
  readonly failure: string | null;
}

export interface VerifyReport extends Omit<Verified, 'missing'> {
  /** Exports that were asked for, and how many of them were read to their end or not. */
  readonly exports: number;
  readonly read: number;
  readonly unread: number;
  readonly findings: readonly Finding[];
  readonly results: readonly VerifiedExportReport[];
}

/** An export's connectors; `close` ends them. */
export interface OpenedExport
  extends Omit<VerifyOptions, 'sql' | 'batchExport' | 'signal' | 'onInterval'> {
  close(): Promise<void>;
}

export interface VerifyAll {
  readonly sql: Sql;
  /** The id or the name of an export; null: all. */
  readonly batchExport?: string | null;
  /** Its id or its name; null: all. */
  readonly organization?: string | null;
  readonly open: (
    batchExport: VerifiedExport,
    places: Places,
    signal: AbortSignal,
  ) => Promise<OpenedExport>;
  readonly placeOf: PlaceOf;
  /** Called with each result as soon as it is known. */
  readonly onResult?: (result: VerifiedExportReport) => void;
  /** Called after each interval: the share of all that is done, from 0 to 1. */
  readonly onProgress?: (share: number) => void;
  /** Multiplies the time that an export may take; default 1. */
  readonly patience?: number;
  /** Ends it: then it throws the reason. Absent: never. */
  readonly signal?: AbortSignal;
}

/** Exports that are verified at once: one waits for its bucket while another one computes. */
const lanes = 4;

/** Findings of an export that are kept: a bucket may have any number of strays. */
const keptFindings = 100;

/** A fault costs only the result of its export, whose time is limited by its size. @throws if our own database is unreachable */
export async function verifyExports(all: VerifyAll): Promise<VerifyReport> {
  const { sql, batchExport = null, organization = null, onResult, onProgress } = all;
  const chosen = await listVerifiedExports(sql, batchExport, organization);
  const results = new Map<string, VerifiedExportReport>();
  const places = new Places(await listExportPlaces(sql), all.placeOf);
  const sizes = await sizeExports(
    sql,
    chosen.map(({ id }) => id),
  );
  const sizeOf = ({ id }: VerifiedExport) => sizes.get(id) ?? { intervals: 0, rows: 0, bytes: 0 };
  const steps = chosen.reduce((sum, one) => sum + sizeOf(one).intervals + 1, 0);
  let done = 0;
  const step = () => {
    done += 1;
    onProgress?.(Math.min(1, done / steps));
  };
  const waiting = chosen.values();
  const work = async (): Promise<void> => {
    for (const next of waiting) {
      const result = await verifyOne(all, next, places, sizeOf(next), step);
      results.set(result.id, result);
      onResult?.(result);
      step();
    }
  };
  await Promise.all(Array.from({ length: lanes }, work));
  return reportOf(
    chosen.length,
    chosen.flatMap(({ id }) => results.get(id) ?? []),
  );
}

const figures = [
  ...(['intervals', 'files', 'rows', 'bytes'] as const),
  ...rowSums,
  ...(['elsewhere', 'leftovers'] as const),
];

function reportOf(asked: number, results: readonly VerifiedExportReport[]): VerifyReport {
  const sums = figures.map((name) => {
    return [name, results.reduce((total, result) => total + result[name], 0)];
  });
  const read = results.filter(({ failure }) => failure === null).length;
  return {
    exports: asked,
    read,
    unread: asked - read,
    ...(Object.fromEntries(sums) as Pick<Verified, (typeof figures)[number]>),
    unproven: results.flatMap(({ unproven }) => unproven),
    remarks: results.flatMap(({ remarks }) => remarks),
    leftOut: results.flatMap(({ leftOut }) => leftOut),
    findings: results.flatMap(({ findings }) => findings),
    results,
  };
}

async function verifyOne(
  all: VerifyAll,
  batchExport: VerifiedExport,
  places: Places,
  size: ExportSize,
  onInterval: () => void,
): Promise<VerifiedExportReport> {
  const { id, name } = batchExport;
  const findings: Finding[] = [];
  let breaches = 0;
  const report = (finding: Finding) => {
    breaches += 1;
    if (findings.length < keptFindings) findings.push(finding);
  };
  const stop = new AbortController();
  const end = () => stop.abort(all.signal?.reason);
  all.signal?.addEventListener('abort', end, { once: true });
  try {
    all.signal?.throwIfAborted();
    const verified = await within(limitMs(size) * (all.patience ?? 1), stop, () =>
      openAndVerify(all, batchExport, places, { signal: stop.signal, onInterval, report }),
    );
    return { id, name, ...verified, findings, breaches, failure: null };
  } catch (error) {
    all.signal?.throwIfAborted();
    // If our own database is gone, nothing else can be verified.
    await all.sql.query('select 1');
    return { id, name, ...nothingVerified, findings, breaches, failure: failureOf(error) };
  } finally {
    all.signal?.removeEventListener('abort', end);
  }
}

/** The watch over the verification of one export, and the way to stop it. */
interface Watch {
  readonly signal: AbortSignal;
  readonly onInterval: () => void;
  readonly report: (finding: Finding) => void;
}

async function openAndVerify(
  { sql, open }: VerifyAll,
  batchExport: VerifiedExport,
  places: Places,
  { signal, onInterval, report }: Watch,
): Promise<Verified> {
  const opened = await open(batchExport, places, signal);
  // A read that waits for a store that never ends its answer fails.
  const close = () => void opened.close().catch(() => {});
  signal.addEventListener('abort', close, { once: true });
  try {
    return await verifyExport({ ...opened, sql, batchExport, signal, onInterval }, (finding) => {
      if (!signal.aborted) report(finding);
    });
  } finally {
    signal.removeEventListener('abort', close);
    await opened.close();
  }
}

/** Ten minutes, and what an export of this size takes at a store and a source that are slow. */
function limitMs({ intervals, rows, bytes }: ExportSize): number {
  return 600_000 + 3_000 * intervals + rows / 2 + bytes / 256;
}

/** Fails after the time, even if the work does not end. */
async function within<T>(ms: number, stop: AbortController, work: () => Promise<T>): Promise<T> {
  const late = setTimeout(
    () => {
      const minutes = Math.ceil(ms / 60_000);
      const why = 'which is much for its size: its store or its source is too slow';
      stop.abort(new Error(`it took longer than ${minutes} minutes, ${why}`));
    },
    Math.min(ms, 2 ** 31 - 1),
  );
  return unlessAborted(work(), stop.signal).finally(() => clearTimeout(late));
}

const again = 'Fix the cause, then run `sluice verify` again.';

function failureOf(error: unknown): string {
  if (error instanceof SluiceError) {
    return `${describeError(error)} ${again}`;
  }
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  return `${String(message || code || error).slice(0, 1_000)}. ${again}`;
}

interface VerifyOptions extends ReceiptOptions {
  /** The export's table; null: it has none. */
  readonly table: ExportTable | null;
  /** Where strays are looked for; the present place is the first. */
  readonly strayPlaces: readonly StrayPlace[];
  readonly leftOut: readonly string[];
  /** After which ticks are deleted. */
  readonly retentionDays: number;
  readonly onInterval: () => void;
}

/** Reads our tables, the source and every current file. @param report called with each breach as it is found */
async function verifyExport(
  options: VerifyOptions,
  report: (finding: Finding) => void,
): Promise<Verified> {
  const { sql, batchExport, keepsFiles, table } = options;
  for (const finding of await verifyTables(options)) report(finding);
  const sums = new Sums(options.leftOut);
  const opened = keepsFiles && batchExport.mode === 'changes' ? await openReplay(options) : null;
  if (typeof opened === 'string') sums.leaveOut(describeCounted(opened));
  const replay = typeof opened === 'string' ? null : opened;
  const tableFiles: Receipt['files'][number][] = [];
  try {
    await verifyReceipts({ ...options, replay }, sums, tableFiles, report);
    if (replay) {
      const answers = await replay.compare();
      answers.findings.forEach(report);
      sums.addAnswers(answers);
    }
  } finally {
    await replay?.close();
  }
  if (table) await lookAtTable(options, table, tableFiles, sums, report);
  if (keepsFiles) {
    for (const place of options.strayPlaces) {
      const breach = breachesOf(batchExport.id);
      sums.addStrays(await findStrays(sql, place, (detail) => report(breach('I4', detail))));
    }
  }
  return sums.sum(await countMissingData(sql, batchExport.id));
}

/** @param tableFiles gets the files that belong to the table of the export */
async function verifyReceipts(
  options: VerifyOptions,
  sums: Sums,
  tableFiles: Receipt['files'][number][],
  report: (finding: Finding) => void,
): Promise<void> {
  const { sql, batchExport, table } = options;
  for await (const receipt of receiptsAfter(sql, batchExport.id)) {
    const verified = await verifyReceipt(options, receipt, report);
    sums.add(verified);
    const isHere = verified.receipt?.destinationVersion === batchExport.destinationVersion;
    // The table of such an export has the newest interval alone.
    if (isHere && batchExport.mode === 'snapshot') tableFiles.length = 0;
    if (table && isHere) tableFiles.push(...(verified.receipt?.files ?? []));
    options.onInterval();
  }
}

/** The table is ahead of the receipts while a run commits. */
async function lookAtTable(
  options: VerifyOptions,
  table: ExportTable,
  files: readonly Receipt['files'][number][],
  sums: Sums,
  report: (finding: Finding) => void,
): Promise<void> {
  const { sql, batchExport, destination } = options;
  const wasLive = await hasLiveRuns(sql, batchExport.id);
  const faults = await table.verify(destination, files);
  if (faults.length === 0) return;
  const isWritten =
    wasLive || (await hasLiveRuns(sql, batchExport.id)) || (await hasMoreFiles(options, files));
  if (isWritten) return sums.leaveOut('its table was not compared, because a run is writing to it');
  for (const fault of faults) report(breachesOf(batchExport.id)('I4', fault));
}

/** Says whether other files are current than those that were read. */
async function hasMoreFiles(
  { sql, batchExport }: VerifyOptions,
  files: readonly Receipt['files'][number][],
): Promise<boolean> {
  const knownKeys = new Set(files.map(({ key }) => key));
  let count = 0;
  let hasMore = false;
  for await (const { files: current, destinationVersion } of receiptsAfter(sql, batchExport.id)) {
    if (destinationVersion !== batchExport.destinationVersion) continue;
    if (batchExport.mode === 'snapshot') [count, hasMore] = [0, false];
    hasMore ||= current.some(({ key }) => !knownKeys.has(key));
    count += current.length;
  }
  return hasMore || count !== knownKeys.size;
}

async function verifyTables({
  sql,
  batchExport,
  retentionDays,
}: VerifyOptions): Promise<readonly Finding[]> {
  const breach = breachesOf(batchExport.id);
  const { id } = batchExport;
  return [
    ...(await findGaps(sql, id)).map(({ start, end }) =>
      breach(
        'I1',
        `${inSeconds(start)} to ${inSeconds(end)} is before the high-water mark and not completed`,
      ),
    ),
    ...(await findTornTicks(sql, id, retentionDays)).map(({ end, next }) =>
      breach(
        'I1',
        `an interval ends at ${inSeconds(end)} and the next begins at ${inSeconds(next)}`,
      ),
    ),
    ...(await findOverlaps(sql, id)).map(({ a, b }) =>
      breach(
        'I2',
        `the current intervals that begin at ${inSeconds(a)} and at ${inSeconds(b)} overlap`,
      ),
    ),
    ...(await findInconsistentRuns(sql, id)).map(({ id: run, why }) =>
      breach('I5', `run ${run}: ${why}`),
    ),
  ];
}
