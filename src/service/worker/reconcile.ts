import { toSluiceError } from '../../foundation/domain/errors.ts';
import { readKey } from '../../foundation/domain/file-name.ts';
import { compareKeys, isMarkerKey } from '../../foundation/domain/object-keys.ts';
import { hideFolders } from '../../foundation/domain/partition.ts';
import {
  cannotReconcile,
  nameOfPlace,
  type Reconciliation,
  type StatementPlace,
} from '../../foundation/domain/statement.ts';
import { type Timestamp, toTimestamp } from '../../foundation/domain/time.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import { isTombstone, readManifestAt } from '../../rows/pipeline/manifest.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { findLeftovers } from '../../state/store/files/leftover-files.ts';
import {
  type KeyRange,
  listNamedObjects,
  type NamedObject,
  noteListed,
  putStatementsAgain,
} from '../../state/store/intervals/named-objects.ts';
import { findPlaceOfStatements } from '../../state/store/intervals/statements.ts';
import { readNow } from '../../state/store/intervals/ticks.ts';
import { listWriters } from '../../state/store/intervals/verify-queries.ts';
import { lockExport } from '../../state/store/exports/exports.ts';
import { placeOfExport } from '../use-cases/statements/make-statement.ts';
import type { StatementOptions } from './put-statements.ts';

/** Objects below the place of an export that are compared. The next statement goes on after them. */
const mostObjects = 10_000;

const mostNamed = 100;

/** They have no canonical bytes. */
const halfCharacters = /\p{Cs}/gu;

/** The list has not ended in time. */
class TooSlow extends Error {}

/** Compares the place of an export with what is delivered. Never fails or exceeds `patienceMs`: the statement says why. */
export async function reconcile(
  options: StatementOptions,
  exportId: string,
  patienceMs: number,
  stopping: AbortSignal,
): Promise<Reconciliation> {
  if (patienceMs <= 0) return cannotReconcile('the lists of this project took too long');
  const limit = AbortSignal.timeout(patienceMs);
  const signal = AbortSignal.any([stopping, limit]);
  const late = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(new TooSlow()), { once: true });
  });
  try {
    // The store may keep the list from noticing the signal.
    return await Promise.race([look(options, exportId, signal), late]);
  } catch (error) {
    if (signal.aborted) return cannotReconcile('the list took too long');
    const { message } = toSluiceError(error);
    return cannotReconcile(message.slice(0, 500).replace(halfCharacters, '?'));
  }
}

async function look(
  options: StatementOptions,
  exportId: string,
  signal: AbortSignal,
): Promise<Reconciliation> {
  const { context, connectors, statements: sources } = options;
  const { db } = context;
  const batchExport = await db.transaction((tx) => lockExport(tx, exportId));
  const stored = await findPlaceOfStatements(db, exportId);
  if (batchExport === null || stored === null) return cannotReconcile('the export was deleted');
  if (!connectors.keepsFiles(batchExport.destination.type)) {
    return cannotReconcile('the destination keeps no objects');
  }
  const place = placeOfExport(sources, batchExport);
  const folder = `${inside(place)}_sluice/statements/`;
  const statements = { name: nameOfPlace(place), folder };
  // The last list may be of another place.
  const after = stored.listed?.startsWith(inside(place)) ? stored.listed : null;
  const rest = { after, upTo: null };
  const due = await listNamedObjects(db, exportId, statements, rest, mostObjects + 1);
  const opened = { ...stored, exportId, destination: batchExport.destination };
  const destination = connectors.openDestination(opened, stored.traits);
  try {
    const at = toTimestamp(await readNow(db));
    const last = due.length > mostObjects ? (due[mostObjects - 1]?.key ?? null) : null;
    const { objects, upTo } = await listObjects(destination, place, { after, upTo: last }, signal);
    const range = { after, upTo };
    const before = due.filter(({ key }) => isIn(range, key));
    const now = await listNamedObjects(db, exportId, statements, range, 2 * mostObjects);
    const search = { db, exportId, destination, signal };
    const differences = {
      ...differencesOf(objects, before, now, place),
      strays: await findStrays(search, place, objects, [...before, ...now]),
    };
    await putStatementsAgain(db, exportId, statements, differences.missing);
    await noteListed(db, exportId, upTo);
    const { secrets, config } = batchExport.destination;
    const isOwn = secrets !== null || (config.role_arn ?? null) !== null || place.type !== 'S3';
    const report = describe(at, differences, isOwn);
    if (after === null && upTo === null) return report;
    const shown = (key: string | null) => (key === null || !isOwn ? null : hideFolders(key));
    return { ...report, part: { from: shown(after), to: shown(upTo) } };
  } finally {
    await destination.close();
  }
}

const inside = ({ prefix }: StatementPlace): string => (prefix === '' ? '' : `${prefix}/`);

const isIn = ({ after, upTo }: KeyRange, key: string): boolean =>
  (after === null || compareKeys(key, after) > 0) && (upTo === null || compareKeys(key, upTo) <= 0);

/** Put before a character that neither PostgreSQL nor a statement can have. It sorts before the key. */
const canonicalStart = (key: string): string => key.split(/[\0\p{Cs}]/u)[0] ?? '';

/** Sizes by key, and the key up to which the list came; null: to the end. */
async function listObjects(
  destination: Destination,
  place: StatementPlace,
  { after, upTo }: KeyRange,
  signal: AbortSignal,
): Promise<{ readonly objects: ReadonlyMap<string, number>; readonly upTo: string | null }> {
  const objects = new Map<string, number>();
  const begin = inside(place);
  let listed = 0;
  let last = begin;
  for await (const { key, bytes } of destination.listFiles(begin, signal, after ?? undefined)) {
    signal.throwIfAborted();
    // Some stores begin at the start all the same.
    if (!key.startsWith(begin) || !isIn({ after, upTo: null }, key)) continue;
    if (!isIn({ after, upTo }, key)) break;
    // A store may give one key again and again.
    if (listed === mostObjects) {
      const range = { after, upTo: canonicalStart(last) };
      for (const one of objects.keys()) if (!isIn(range, one)) objects.delete(one);
      return { objects, upTo: range.upTo };
    }
    listed += 1;
    last = key;
    objects.set(key, bytes);
  }
  return { objects, upTo };
}

interface Found {
  readonly missing: readonly string[];
  readonly changed: readonly string[];
  readonly strays: readonly string[];
}

/** Objects that were named before the list and after it: a run may have replaced the others meanwhile. */
function differencesOf(
  objects: ReadonlyMap<string, number>,
  before: readonly NamedObject[],
  now: readonly NamedObject[],
  place: StatementPlace,
): Pick<Found, 'missing' | 'changed'> {
  const still = new Set(now.filter(({ isHere }) => isHere).map(({ key }) => key));
  const due = before.filter(
    ({ key, isHere }) => isHere && still.has(key) && key.startsWith(inside(place)),
  );
  return {
    missing: due.filter(({ key }) => !objects.has(key)).map(({ key }) => key),
    changed: due
      .filter(({ key, bytes }) => bytes !== null && (objects.get(key) ?? bytes) !== bytes)
      .map(({ key }) => key),
  };
}

interface Search {
  readonly db: Sql;
  readonly exportId: string;
  readonly destination: Destination;
  readonly signal: AbortSignal;
}

async function findStrays(
  search: Search,
  place: StatementPlace,
  objects: ReadonlyMap<string, number>,
  named: readonly NamedObject[],
): Promise<readonly string[]> {
  const { db, exportId } = search;
  const ours = new Set(named.map(({ key }) => key));
  const start = inside(place);
  const keys = [...objects.keys()].filter((key) => {
    const path = key.slice(start.length);
    return !ours.has(key) && !/^(_sluice|metadata)\//.test(path) && !isOurNote(path);
  });
  if (keys.length === 0) return [];
  // PostgreSQL stores no NUL.
  const storable = keys.filter((key) => !/[\0\p{Cs}]/u.test(key));
  const leftovers = await findLeftovers(db, exportId, storable);
  const unknown = keys.filter((key) => !leftovers.has(key));
  const strays: string[] = [];
  for (const [index, key] of unknown.entries()) {
    // The others are counted.
    const isLooked = index < mostNamed;
    if (isLooked && (await isExplained(search, key))) continue;
    strays.push(key);
  }
  return strays;
}

/** A run writes the interval of the key, or a manifest is left there by a move. */
async function isExplained(
  { db, exportId, destination, signal }: Search,
  key: string,
): Promise<boolean> {
  const writers = await listWriters(db, [{ exportId, version: 0 }], startOf(key));
  if (writers.length > 0) return true;
  if (!key.endsWith('_manifest.json')) return false;
  const object = await readManifestAt(destination, key, signal);
  const manifest = object !== null && object !== 'denied' ? object.manifest : null;
  return manifest?.batch_export_id === exportId && isTombstone(manifest);
}

const isOurNote = (path: string): boolean =>
  isMarkerKey(path) || path.slice(path.lastIndexOf('/') + 1).startsWith('.sluice-owner-');

/** The start of the interval of a key of ours, which may be no date. */
function startOf(key: string): string {
  const start = readKey(key)?.start ?? '';
  return Number.isNaN(Date.parse(start)) ? '-infinity' : start;
}

/** Names the first keys of each kind, and counts the others. With credentials of the process, keys of others are counted. */
function describe(at: Timestamp, found: Found, isOwn: boolean): Reconciliation {
  const stray = isOwn ? namedOf(found.strays) : [];
  const [missing, changed] = [namedOf(found.missing), namedOf(found.changed)];
  const all = found.missing.length + found.changed.length + found.strays.length;
  const more = all - missing.length - changed.length - stray.length;
  return { state: 'listed', at, reason: null, missing, changed, stray, more };
}

const namedOf = (keys: readonly string[]): readonly string[] =>
  keys
    .filter((key) => !/\p{Cs}/u.test(key) && key.length <= 1_024)
    .slice(0, mostNamed)
    .map(hideFolders)
    .toSorted();
