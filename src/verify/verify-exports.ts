import { describeError, SluiceError } from '../domain/errors.ts';
import type { Sql } from '../store/database.ts';
import {
  listKnownKeys,
  listLeftoverKeys,
  listVerifiedExports,
  type VerifiedExport,
} from '../store/verify-queries.ts';
import type { Finding } from './finding.ts';
import { type Verified, type VerifyOptions, verifyExport } from './verify-export.ts';

/** What was found of one export. */
export interface VerifiedExportReport extends Verified {
  readonly id: string;
  readonly name: string;
  readonly findings: readonly Finding[];
  /** Why it could not be read to its end, with the remedy; null if it was. */
  readonly failure: string | null;
}

export interface VerifyReport extends Verified {
  /** Those that were read to their end. */
  readonly exports: number;
  readonly findings: readonly Finding[];
  readonly results: readonly VerifiedExportReport[];
}

/** An export's connectors. */
export type OpenExport = (
  batchExport: VerifiedExport,
) => Pick<
  VerifyOptions,
  'destination' | 'keepsFiles' | 'table' | 'source' | 'readRows' | 'renderAgain'
>;

/**
 * Checks every export, or one, against the promises: reads our tables, the source and every current file. Goes
 * on with the next export after a breach, and if a destination, a source or a secret cannot be read.
 *
 * @throws if our own database is unreachable
 */
export async function verifyExports(
  sql: Sql,
  exportId: string | null,
  open: OpenExport,
): Promise<VerifyReport> {
  const knownKeys = await listKnownKeys(sql);
  const leftoverKeys = await listLeftoverKeys(sql);
  const { signal } = new AbortController();
  const results: VerifiedExportReport[] = [];
  for (const batchExport of await listVerifiedExports(sql, exportId)) {
    const { id, name } = batchExport;
    const findings: Finding[] = [];
    const shared = { sql, batchExport, knownKeys, leftoverKeys, signal };
    const result = await verifyOne(sql, batchExport, open, findings, (connectors) => ({
      ...shared,
      ...connectors,
    }));
    results.push({ id, name, findings, ...result });
  }
  const sum = (what: keyof typeof nothing) =>
    results.reduce((total, result) => total + result[what], 0);
  return {
    exports: results.filter(({ failure }) => failure === null).length,
    intervals: sum('intervals'),
    files: sum('files'),
    rows: sum('rows'),
    bytes: sum('bytes'),
    elsewhere: sum('elsewhere'),
    leftovers: sum('leftovers'),
    unproven: results.flatMap(({ unproven }) => unproven),
    findings: results.flatMap(({ findings }) => findings),
    results,
  };
}

const nothing = { intervals: 0, files: 0, rows: 0, bytes: 0, elsewhere: 0, leftovers: 0 };

/** @param findings gets what is found, also before a failure */
async function verifyOne(
  sql: Sql,
  batchExport: VerifiedExport,
  open: OpenExport,
  findings: Finding[],
  optionsOf: (connectors: ReturnType<OpenExport>) => VerifyOptions,
): Promise<Verified & { readonly failure: string | null }> {
  try {
    const connectors = open(batchExport);
    try {
      const verified = await verifyExport(optionsOf(connectors), (finding) =>
        findings.push(finding),
      );
      return { ...verified, failure: null };
    } finally {
      await connectors.destination.close();
    }
  } catch (error) {
    // If our own database is gone, nothing else can be verified.
    await sql.query('select 1');
    return { ...nothing, unproven: [], failure: failureOf(error) };
  }
}

const again = 'Fix the cause, then run sluice verify again.';

function failureOf(error: unknown): string {
  if (error instanceof SluiceError) {
    // A transient error promises retries, which only runs get.
    return error.spec.retryable ? describeError(error, again) : describeError(error);
  }
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  return `${String(message || code || error)}. ${again}`;
}
