import type { Destination } from '../destinations/destination.ts';
import { readFileSettings } from '../domain/file-settings.ts';
import { literalFolder } from '../domain/key-template.ts';
import { manifestKeyOf } from '../domain/object-keys.ts';
import type { DataInterval } from '../domain/time.ts';
import type { IntervalTable } from '../pipeline/interval-job.ts';
import { readManifestAt } from '../pipeline/manifest.ts';
import type { Sql } from '../store/database.ts';
import { listReceipts, type Receipt } from '../store/receipts.ts';
import {
  findGaps,
  findInconsistentRuns,
  findOverlaps,
  findTornTicks,
  hasLiveRuns,
} from '../store/verify-queries.ts';
import { breachesOf, type Finding } from './finding.ts';
import type { VerifiedInterval } from './verified-interval.ts';
import { verifyInterval } from './verify-interval.ts';
import { verifyTable } from './verify-table.ts';
import { verifyTransformed } from './verify-transformed.ts';

export interface VerifyOptions extends VerifiedInterval {
  readonly sql: Sql;
  /** From the destination's definition: if it keeps no files, there is nothing to read. */
  readonly keepsFiles: boolean;
  /** The export's table; null: it has none. */
  readonly table: IntervalTable | null;
  /** What our database knows of the export's present place, under any export. */
  readonly here: KnownHere;
}

/** What our database knows of a place. */
export interface KnownHere {
  /** The exports that have or had files there. */
  readonly exportIds: readonly string[];
  /** Every key that a receipt names. */
  readonly keys: ReadonlySet<string>;
  /** Files that may be removed, because of a later commit. */
  readonly leftoverKeys: ReadonlySet<string>;
}

export interface Verified {
  readonly intervals: number;
  readonly files: number;
  readonly rows: number;
  readonly bytes: number;
  /** Current intervals at a place that the export has left; their files are not read. */
  readonly elsewhere: number;
  /** Files of uncommitted or replaced generations that are still there. */
  readonly leftovers: number;
  /** Intervals whose transformed rows can no longer be compared with the source, each with the reason. */
  readonly unproven: readonly string[];
}

/** Receipts per read. */
const page = 100;

/**
 * Checks one export against its promises: our tables, the source and the bucket. Reads every current file.
 *
 * @param report called with each breach as it is found
 */
export async function verifyExport(
  options: VerifyOptions,
  report: (finding: Finding) => void,
): Promise<Verified> {
  const { sql, batchExport, keepsFiles, table } = options;
  for (const finding of await verifyTables(sql, batchExport.id)) report(finding);
  const unproven: string[] = [];
  const tableFiles: Receipt['files'][number][] = [];
  const sums = { intervals: 0, files: 0, rows: 0, bytes: 0, elsewhere: 0 };
  let after: DataInterval | null = null;
  for (;;) {
    const receipts: readonly Receipt[] = await listReceipts(sql, batchExport.id, after, page);
    for (const receipt of receipts) {
      if (receipt.destinationVersion !== batchExport.destinationVersion) {
        sums.elsewhere += 1;
        continue;
      }
      if (keepsFiles) {
        if (receipt.recipe?.chain) {
          const verified = await verifyTransformed(options, receipt, receipt.recipe);
          for (const finding of verified.findings) report(finding);
          if (verified.unproven !== null) unproven.push(verified.unproven);
        } else {
          for (const finding of await verifyInterval(options, receipt)) report(finding);
        }
      }
      if (table) tableFiles.push(...receipt.files);
      sums.intervals += 1;
      sums.files += receipt.files.length;
      sums.rows += receipt.rows;
      sums.bytes += receipt.bytes;
    }
    const last = receipts.at(-1);
    if (!last || receipts.length < page) break;
    after = last.interval;
  }
  if (table && !(await hasLiveRuns(sql, [batchExport.id]))) {
    const breach = breachesOf(batchExport.id);
    const { destination } = options;
    for (const fault of await verifyTable(destination, batchExport.id, table, tableFiles)) {
      report(breach('I4', fault));
    }
  }
  const { orphans, leftovers } = await findOrphans(options);
  for (const finding of orphans) report(finding);
  return { ...sums, leftovers, unproven };
}

async function verifyTables(sql: Sql, exportId: string): Promise<readonly Finding[]> {
  const breach = breachesOf(exportId);
  return [
    ...(await findGaps(sql, exportId)).map(({ start, end }) =>
      breach('I1', `${start} to ${end} is before the high-water mark and not completed`),
    ),
    ...(await findTornTicks(sql, exportId)).map(({ end, next }) =>
      breach('I1', `an interval ends at ${end} and the next begins at ${next}`),
    ),
    ...(await findOverlaps(sql, exportId)).map(({ a, b }) =>
      breach('I2', `the current intervals that begin at ${a} and at ${b} overlap`),
    ),
    ...(await findInconsistentRuns(sql, exportId)).map(({ id, why }) =>
      breach('I5', `run ${id}: ${why}`),
    ),
  ];
}

/** `…/2024-03-01T00:00:00Z-2024-03-01T01:00:00Z` and the rest: a key that Sluice would make. */
const ourKey = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ[^/]*$/;

/** I4: every object of ours is named by a current manifest. Not checked while a run writes. */
async function findOrphans(
  options: VerifyOptions,
): Promise<{ readonly orphans: readonly Finding[]; readonly leftovers: number }> {
  const { sql, batchExport, destination, keepsFiles, here } = options;
  const breach = breachesOf(batchExport.id);
  const findings: Finding[] = [];
  let leftovers = 0;
  if (!keepsFiles || (await hasLiveRuns(sql, here.exportIds)))
    return { orphans: findings, leftovers };
  const isNamedThere = findNamed(destination);
  const folder = literalFolder(readFileSettings(batchExport.destination.config).prefix);
  for await (const { key } of destination.listFiles(folder)) {
    if (!ourKey.test(key) || here.keys.has(key)) continue;
    if (here.leftoverKeys.has(key)) leftovers += 1;
    else if (!(await isNamedThere(key))) {
      findings.push(breach('I4', `${key} is in no current manifest`));
    }
  }
  for await (const { key, uploadId } of destination.listUploads(folder)) {
    if (ourKey.test(key)) {
      const detail = `upload ${uploadId} of ${key} is neither completed nor aborted`;
      findings.push(breach('I4', detail));
    }
  }
  return { orphans: findings, leftovers };
}

/**
 * Looks up keys that our receipts do not have in the bucket's manifests: an export that has left this place
 * leaves its manifest and files there, or a tombstone. Keys come in order, so it caches the last manifest.
 */
function findNamed(destination: Destination): (key: string) => Promise<boolean> {
  let last: { readonly manifestKey: string; readonly names: ReadonlySet<string> } | null = null;
  return async (key) => {
    const manifestKey = manifestKeyOf(key);
    if (last?.manifestKey !== manifestKey) {
      const found = await readManifestAt(destination, manifestKey);
      const manifest = found !== null && found !== 'denied' ? found.manifest : null;
      const files = [...(manifest?.files ?? []), ...(manifest?.rejected_files ?? [])];
      const names = new Set(files.map((file) => file.key));
      if (manifest) names.add(manifestKey);
      last = { manifestKey, names };
    }
    return last.names.has(key);
  };
}
