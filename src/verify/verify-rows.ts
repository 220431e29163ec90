import type { Receipt } from '../store/receipts.ts';
import { readFileKeys, readRejectedKeys } from './file-keys.ts';
import type { Finding } from './finding.ts';
import type { SourceKeys } from './source-keys.ts';
import type { FilesInForce } from './verify-files.ts';

/** Rows that a finding names at most. */
const named = 5;

/** I3: the files of an interval hold each row of the source once, and nothing else. */
export async function verifyRows(
  receipt: Receipt,
  inForce: FilesInForce,
  source: SourceKeys,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const broken = (invariant: 'I3' | 'I4', detail: string) =>
    findings.push({ invariant, exportId: receipt.exportId, detail });
  const interval = `${receipt.intervalStart} to ${receipt.intervalEnd}`;
  if (source.names.length === 0) {
    if (receipt.rows !== source.rows) {
      broken('I3', `${interval}: ${receipt.rows} rows in force, ${source.rows} in the source`);
    }
    return findings;
  }
  const expected = new Set(source.keys);
  const seen = new Set<string>();
  const doubled: string[] = [];
  const foreign: string[] = [];
  for (const { key: file, bytes, rejected } of inForce.files) {
    let rows = 0;
    const keys = rejected
      ? readRejectedKeys(bytes, source.names)
      : readFileKeys(bytes, inForce.manifest, source.names);
    for await (const key of keys) {
      rows += 1;
      if (seen.has(key)) doubled.push(key);
      else if (!expected.has(key)) foreign.push(key);
      seen.add(key);
    }
    const entries = rejected ? receipt.rejectedFiles : receipt.files;
    const entry = entries.find(({ key }) => key === file);
    if (entry?.rows !== rows)
      broken('I4', `${file} has ${rows} rows, its manifest says ${entry?.rows}`);
  }
  const lost = source.keys.filter((key) => !seen.has(key));
  if (lost.length > 0) broken('I3', `${interval}: ${lost.length} rows lost: ${list(lost)}`);
  if (doubled.length > 0)
    broken('I3', `${interval}: ${doubled.length} rows doubled: ${list(doubled)}`);
  if (foreign.length > 0) {
    broken('I3', `${interval}: ${foreign.length} rows are not in the source: ${list(foreign)}`);
  }
  return findings;
}

function list(keys: readonly string[]): string {
  const shown = keys.slice(0, named).map((key) => key.replaceAll('\0', '/'));
  return shown.join(', ') + (keys.length > named ? ' …' : '');
}
