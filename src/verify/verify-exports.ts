import type { Sql } from '../store/database.ts';
import {
  listKnownKeys,
  listLeftoverKeys,
  listVerifiedExports,
  type VerifiedExport,
} from '../store/verify-queries.ts';
import type { Finding } from './finding.ts';
import { type Verified, type VerifyOptions, verifyExport } from './verify-export.ts';

export interface VerifyReport extends Verified {
  readonly exports: number;
  readonly findings: readonly Finding[];
}

/** An export's connectors. */
export type OpenExport = (
  batchExport: VerifiedExport,
) => Pick<VerifyOptions, 'destination' | 'keepsFiles' | 'source' | 'readRows' | 'renderAgain'>;

/**
 * Checks every export, or one, against the promises: reads our tables, the source and every current file.
 * Stops after the first export with a breach.
 */
export async function verifyExports(
  sql: Sql,
  exportId: string | null,
  open: OpenExport,
): Promise<VerifyReport> {
  const knownKeys = await listKnownKeys(sql);
  const leftoverKeys = await listLeftoverKeys(sql);
  const { signal } = new AbortController();
  const findings: Finding[] = [];
  const unproven: string[] = [];
  const sums = {
    exports: 0,
    intervals: 0,
    files: 0,
    rows: 0,
    bytes: 0,
    elsewhere: 0,
    leftovers: 0,
  };
  for (const batchExport of await listVerifiedExports(sql, exportId)) {
    const connectors = open(batchExport);
    const options = { ...connectors, sql, batchExport, knownKeys, leftoverKeys, signal };
    try {
      const verified = await verifyExport(options, (finding) => findings.push(finding));
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) {
        if (name !== 'exports') sums[name] += verified[name];
      }
      unproven.push(...verified.unproven);
      sums.exports += 1;
    } finally {
      await connectors.destination.close();
    }
    if (findings.length > 0) break;
  }
  return { ...sums, unproven, findings };
}
