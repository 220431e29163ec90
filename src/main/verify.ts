import type { Config } from '../config/config.ts';
import type { Database } from '../store/database.ts';
import { listKnownKeys, listLeftoverKeys, listVerifiedExports } from '../store/verify-queries.ts';
import type { Finding } from '../verify/finding.ts';
import { type Verified, verifyExport } from '../verify/verify-export.ts';
import {
  destinationContextOf,
  destinationOf,
  joinConnectors,
  readRowsBy,
  registry,
} from './connectors.ts';
import { openSecretBox } from './encryption-keys.ts';
import { joinSources, loadModels } from './models.ts';

export interface VerifyReport extends Verified {
  readonly exports: number;
  readonly findings: readonly Finding[];
}

/**
 * Checks every export, or one, against the promises: reads our tables, the source and every current file.
 * Stops after the first export with a breach.
 */
export async function verifyExports(
  config: Config,
  db: Database,
  sourceUrl: string,
  exportId: string | null,
): Promise<VerifyReport> {
  const secrets = await openSecretBox(config);
  const context = destinationContextOf(config);
  const sourceOf = joinSources(config, loadModels(config), sourceUrl);
  const connectors = joinConnectors(sourceOf, context, secrets);
  const knownKeys = await listKnownKeys(db);
  const leftoverKeys = await listLeftoverKeys(db);
  const findings: Finding[] = [];
  const nothing = {
    exports: 0,
    intervals: 0,
    files: 0,
    rows: 0,
    bytes: 0,
    elsewhere: 0,
    leftovers: 0,
  };
  let report: VerifyReport = { ...nothing, findings };
  try {
    for (const batchExport of await listVerifiedExports(db, exportId)) {
      const { type } = batchExport.destination;
      const destination = connectors.openDestination({ ...batchExport, exportId: batchExport.id });
      try {
        const verified = await verifyExport(
          {
            sql: db,
            batchExport,
            destination,
            keepsFiles: destinationOf(registry, type).keepsFiles,
            source: sourceOf(batchExport.model),
            readRows: readRowsBy(registry),
            knownKeys,
            leftoverKeys,
            signal: new AbortController().signal,
          },
          (finding) => findings.push(finding),
        );
        report = {
          exports: report.exports + 1,
          intervals: report.intervals + verified.intervals,
          files: report.files + verified.files,
          rows: report.rows + verified.rows,
          bytes: report.bytes + verified.bytes,
          elsewhere: report.elsewhere + verified.elsewhere,
          leftovers: report.leftovers + verified.leftovers,
          findings,
        };
      } finally {
        await destination.close();
      }
      if (findings.length > 0) break;
    }
    return report;
  } finally {
    // Idle sockets would keep the process alive.
    context.httpAgent.destroy();
    context.httpsAgent.destroy();
  }
}
