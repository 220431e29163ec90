import type { Receipt } from '../store/receipts.ts';
import { readFileKeys, readRejectedKeys } from './file-keys.ts';
import type { Finding } from './finding.ts';
import { showKeys } from './key-values.ts';
import type { SourceKeys } from './source-keys.ts';
import type { FilesInForce } from './verify-files.ts';

/** Rows that a finding names at most. */
const named = 5;

/**
 * I3: the files of an interval hold each row of the source once, and nothing else. Rows of a view may
 * share a key: the files must hold it as often as the source.
 */
export async function verifyRows(
  receipt: Receipt,
  inForce: FilesInForce,
  source: SourceKeys,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const broken = (invariant: 'I3' | 'I4', detail: string) =>
    findings.push({ invariant, exportId: receipt.exportId, detail });
  const interval = `${receipt.intervalStart} to ${receipt.intervalEnd}`;
  if (source.columns.length === 0) {
    if (receipt.rows !== source.rows) {
      broken('I3', `${interval}: ${receipt.rows} rows in force, ${source.rows} in the source`);
    }
    return findings;
  }
  /** How often each key is still to come; below zero it came too often. */
  const due = new Map<string, number>();
  for (const key of source.keys) due.set(key, (due.get(key) ?? 0) + 1);
  const doubled: string[] = [];
  const foreign: string[] = [];
  for (const { key: file, bytes, rejected } of inForce.files) {
    let rows = 0;
    const keys = rejected
      ? readRejectedKeys(bytes, source.columns)
      : readFileKeys(bytes, inForce.manifest, source.columns);
    for await (const key of keys) {
      rows += 1;
      const left = due.get(key);
      if (left === undefined) foreign.push(key);
      else if (left <= 0) doubled.push(key);
      if (left !== undefined) due.set(key, left - 1);
    }
    const entries = rejected ? receipt.rejectedFiles : receipt.files;
    const entry = entries.find(({ key }) => key === file);
    if (entry?.rows !== rows)
      broken('I4', `${file} has ${rows} rows, its manifest says ${entry?.rows}`);
  }
  const lost = [...due].flatMap(([key, left]) =>
    Array.from({ length: Math.max(left, 0) }, () => key),
  );
  if (lost.length > 0) broken('I3', `${interval}: ${lost.length} rows lost: ${list(lost)}`);
  if (doubled.length > 0)
    broken('I3', `${interval}: ${doubled.length} rows doubled: ${list(doubled)}`);
  if (foreign.length > 0) {
    broken('I3', `${interval}: ${foreign.length} rows are not in the source: ${list(foreign)}`);
  }
  return findings;
}

function list(keys: readonly string[]): string {
  const shown = keys.slice(0, named).map(showKeys);
  return shown.join(', ') + (keys.length > named ? ' …' : '');
}
