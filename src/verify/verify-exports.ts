import { describeError, SluiceError } from '../domain/errors.ts';
import type { DestinationConfig } from '../domain/file-settings.ts';
import type { Sql } from '../store/database.ts';
import {
  listKnownKeys,
  listLeftoverKeys,
  listPlaces,
  listVerifiedExports,
  type VerifiedExport,
} from '../store/verify-queries.ts';
import type { Finding } from './finding.ts';
import {
  type KnownHere,
  type Verified,
  type VerifyOptions,
  verifyExport,
} from './verify-export.ts';

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

/** Identifies the place of a config's files, without the prefix. */
export type PlaceOf = (type: string, config: DestinationConfig) => string;

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
  placeOf: PlaceOf,
): Promise<VerifyReport> {
  const findKnown = knownPlaces(sql, placeOf);
  const { signal } = new AbortController();
  const results: VerifiedExportReport[] = [];
  for (const batchExport of await listVerifiedExports(sql, exportId)) {
    const { id, name } = batchExport;
    const findings: Finding[] = [];
    const result = await verifyOne(sql, batchExport, open, findings, async (connectors) => ({
      ...{ sql, batchExport, signal, here: await findKnown(batchExport) },
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

/** Reads what our database knows of an export's present place, once for each place. */
function knownPlaces(sql: Sql, placeOf: PlaceOf): (at: VerifiedExport) => Promise<KnownHere> {
  const found = new Map<string, KnownHere>();
  return async ({ destination: { type, config } }) => {
    const place = placeOf(type, config);
    const known = found.get(place);
    if (known) return known;
    const versions = (await listPlaces(sql)).filter(
      (one) => placeOf(one.type, one.config) === place,
    );
    const here = {
      exportIds: versions.map(({ exportId }) => exportId),
      keys: await listKnownKeys(sql, versions),
      leftoverKeys: await listLeftoverKeys(sql, versions),
    };
    found.set(place, here);
    return here;
  };
}

const nothing = { intervals: 0, files: 0, rows: 0, bytes: 0, elsewhere: 0, leftovers: 0 };

/** @param findings gets what is found, also before a failure */
async function verifyOne(
  sql: Sql,
  batchExport: VerifiedExport,
  open: OpenExport,
  findings: Finding[],
  optionsOf: (connectors: ReturnType<OpenExport>) => Promise<VerifyOptions>,
): Promise<Verified & { readonly failure: string | null }> {
  try {
    const connectors = open(batchExport);
    try {
      const options = await optionsOf(connectors);
      const verified = await verifyExport(options, (finding) => findings.push(finding));
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
