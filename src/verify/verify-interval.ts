import { readFileSettings } from '../domain/file-settings.ts';
import { settingsOfRecipe } from '../domain/format-settings.ts';
import { describeInterval } from '../domain/time.ts';
import { bucketsToName, KeyDifference, type KeySink, KeyTally } from '../pipeline/key-tally.ts';
import { showKeys } from '../pipeline/key-values.ts';
import type { Receipt } from '../store/receipts.ts';
import { breachesOf, type Finding } from './finding.ts';
import { readSourceKeys, type SourceRows } from './source-keys.ts';
import type { VerifiedInterval } from './verified-interval.ts';
import { verifyFiles } from './verify-files.ts';

/** Maximum rows that a finding names. */
const maxNamed = 5;

/** Maximum keys in memory to name rows; beyond it only a part of the buckets is used. */
const heldKeys = 2_000_000;

/**
 * I4 and I3: the files of an interval are as its receipt says, and have each row of the source exactly
 * once. Rows of a view may share a key: the files must have it as often as the source. Memory is constant
 * for any interval; only if rows differ is everything read again to name them.
 */
export async function verifyInterval(
  interval: VerifiedInterval,
  receipt: Receipt,
): Promise<readonly Finding[]> {
  const breach = breachesOf(receipt.exportId);
  const tally = new KeyTally();
  const { source, faults } = await readBoth(interval, receipt, tally);
  if (faults.length > 0) return faults.map((detail) => breach('I4', detail));
  const range = describeInterval(receipt.interval);
  const broken = (detail: string) => breach('I3', `${range}: ${detail}`);
  if (source.columns.length === 0) {
    if (receipt.rows === source.rows) return [];
    return [broken(`${receipt.rows} current rows, ${source.rows} in the source`)];
  }
  const differing = tally.differing();
  if (differing.length === 0) return [];
  const named = bucketsToName(differing, receipt.rows + source.rows, heldKeys);
  const difference = new KeyDifference(named);
  await readBoth(interval, receipt, difference);
  const atLeast = differing.length > named.length ? 'at least ' : '';
  const { lost, doubled, foreign } = difference.read();
  return [
    { keys: lost, what: 'rows lost' },
    { keys: doubled, what: 'rows doubled' },
    { keys: foreign, what: 'rows are not in the source' },
  ]
    .filter(({ keys }) => keys.length > 0)
    .map(({ keys, what }) => broken(`${atLeast}${keys.length} ${what}: ${list(keys)}`));
}

async function readBoth(
  { batchExport, destination, source, readRows, signal }: VerifiedInterval,
  receipt: Receipt,
  sink: KeySink,
): Promise<{ readonly source: SourceRows; readonly faults: readonly string[] }> {
  const { model, teamId, dslQuery: currentQuery, destination: place } = batchExport;
  // Earlier builds kept no recipe: use the export's current settings.
  const recipe = receipt.recipe ?? {
    ...readFileSettings(place.config),
    dslQuery: currentQuery,
  };
  const { format, compression } = recipe;
  const { dslQuery, includeEvents, excludeEvents } = recipe;
  const { interval } = receipt;
  const request = { model, teamId, interval, dslQuery, includeEvents, excludeEvents };
  const found = await readSourceKeys(source, request, signal, (key) => sink.add(key, 1));
  const faults = await verifyFiles(
    { destination, readRows },
    receipt,
    { format, compression, ...settingsOfRecipe(recipe) },
    found.columns,
    (key) => sink.add(key, -1),
  );
  return { source: found, faults };
}

function list(keys: readonly string[]): string {
  const shown = keys.slice(0, maxNamed).map(showKeys);
  return shown.join(', ') + (keys.length > maxNamed ? ' …' : '');
}
