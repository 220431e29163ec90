import { createHash } from 'node:crypto';
import { SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import { parseForeignJson } from '../../foundation/domain/foreign-json.ts';
import { canonicalBytes } from '../../foundation/domain/canonical-json.ts';
import { nameOfPlace } from '../../foundation/domain/statement.ts';
import { isSignedBy } from '../../foundation/security/signing-keys.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { listSigningKeys } from '../../state/store/database/signing-keys.ts';
import { lockExport } from '../../state/store/exports/exports.ts';
import { appendLogEntries } from '../../state/store/exports/log-entries.ts';
import { keepStoreTraits } from '../../state/store/files/store-traits.ts';
import {
  beginChain,
  findPlaceOfStatements,
  findStatement,
  lockChain,
  type NewStatement,
  notePut,
  notePutFault,
  type StatementChain,
} from '../../state/store/intervals/statements.ts';
import { learnKeys, readPublicKeys } from '../use-cases/installation/signing.ts';
import { placeOfExport } from '../use-cases/statements/make-statement.ts';
import type { SweepOptions } from './collect-uploads.ts';
import type { StatementParts } from './options.ts';

export type StatementOptions = SweepOptions & StatementParts;

const maxPuts = 100;

/** Statements that a restored database lacks. */
const maxForeign = 10_000;

/** The largest object that is read, and how much of what others may have written is held in memory. */
const maxBytes = 64 * 1024 ** 2;
const heldBytes = 16 * 1024 ** 2;

interface Place {
  readonly exportId: string;
  readonly name: string;
  /** Of its keys: `a/_sluice/`. */
  readonly folder: string;
  readonly destination: Destination;
  readonly signal: AbortSignal;
}

/** Puts the statements of an export that wait, in order. Any number of workers may do it, also late: the bytes are decided. */
export async function putStatements(
  options: StatementOptions,
  exportId: string,
  signal: AbortSignal,
): Promise<void> {
  const { context, connectors, statements: sources } = options;
  const { db } = context;
  const waiting = await db.transaction(async (tx) => {
    const batchExport = await lockExport(tx, exportId);
    if (!batchExport) return null;
    const chain = await lockChain(tx, exportId);
    if (!chain) return null;
    const place = placeOfExport(sources, batchExport);
    const name = nameOfPlace(place);
    const isHere = chain.place === name;
    // The chain goes on at the new place, and all of it must be there.
    if (!isHere) await notePut(tx, exportId, name, 0);
    const stored = await findPlaceOfStatements(tx, exportId);
    const waits = isHere ? chain : { ...chain, putNumber: 0 };
    return stored && { batchExport, place, name, stored, chain: waits };
  });
  if (waiting === null || waiting.chain.putNumber >= waiting.chain.number) return;
  const { batchExport, place, name, stored, chain } = waiting;
  const { type } = batchExport.destination;
  if (!connectors.keepsFiles(type)) {
    await db.transaction((tx) => notePut(tx, exportId, name, chain.number));
    return;
  }
  const { traits } = stored;
  const opened = { ...stored, exportId, destination: batchExport.destination };
  try {
    const destination = connectors.openDestination(opened, traits);
    try {
      if (destination.traits === null) {
        await keepStoreTraits(db, { exportId, ...stored }, await destination.probe(signal));
      }
      const folder = `${place.prefix === '' ? '' : `${place.prefix}/`}_sluice/`;
      await putAll(options, { exportId, name, folder, destination, signal }, chain);
    } finally {
      await destination.close();
    }
  } catch (error) {
    const { message } = toSluiceError(error);
    const isNew = await notePutFault(db, exportId, message);
    if (!isNew) return;
    const text = `Statements could not be put, and wait: ${message}`;
    const entry = { teamId: batchExport.teamId, exportId, runId: null, level: 'WARNING' } as const;
    await appendLogEntries(db, [{ ...entry, message: text }]);
  }
}

async function putAll(
  options: StatementOptions,
  place: Place,
  chain: StatementChain,
): Promise<void> {
  const { db } = options.context;
  const { exportId, name, destination, signal } = place;
  const last = Math.min(chain.number, chain.putNumber + maxPuts);
  // Credentials that cannot read find nothing to learn.
  const list = await readWhole(place, `${place.folder}keys.json`).catch(nullIfDenied);
  if (list?.bytes) await learnKeys(db, await readCanonical(list.bytes));
  for (let number = chain.putNumber + 1; number <= last; number += 1) {
    const body = await findStatement(db, exportId, number);
    if (body !== null) {
      const key = `${place.folder}statements/${number}.json`;
      await failpoint('before_put_statement');
      try {
        await destination.commitManifest(key, body, null, { signal });
      } catch (error) {
        if (toSluiceError(error).code !== 'destination.conflict') throw error;
        return beginAnew(options, place, number, body);
      }
    }
    if (number === chain.putNumber + 1) await putBeside(options, place);
    await failpoint('after_put_statement');
    const isOurs = await db.transaction((tx) => advance(tx, exportId, name, number, body));
    // Another process has put it, the export has moved, or a chain has begun.
    if (!isOurs) return;
  }
}

/** Notes that a statement is there, if it is still ours and the next one. The process may have been frozen meanwhile. */
async function advance(
  tx: Sql,
  exportId: string,
  place: string,
  number: number,
  body: Buffer | null,
): Promise<boolean> {
  const now = await lockChain(tx, exportId);
  if (!now) return false;
  const ours = await findStatement(tx, exportId, number);
  const isSame = body === null ? ours === null : ours?.equals(body) === true;
  if (now.place !== place || now.putNumber !== number - 1 || now.number < number || !isSame) {
    return false;
  }
  await notePut(tx, exportId, place, number);
  return true;
}

async function putBeside({ context, checkers }: StatementOptions, place: Place): Promise<void> {
  const files = [['keys.json', await readPublicKeys(context.db)] as const, ...checkers];
  for (const [name, bytes] of files) {
    const key = place.folder + name;
    const { signal } = place;
    try {
      const there = await readWhole(place, key);
      if (there?.bytes?.equals(bytes)) continue;
      await place.destination.commitManifest(key, bytes, there?.etag ?? null, { signal });
    } catch (error) {
      // Credentials that cannot read put the first ones, and do not replace them.
      nullIfDenied(error);
      await place.destination.commitManifest(key, bytes, null, { signal }).catch(() => {});
    }
  }
}

function nullIfDenied(error: unknown): null {
  if (toSluiceError(error).code !== 'destination.access_denied') throw error;
  return null;
}

interface FoundObject {
  /** Null: there are too many. */
  readonly bytes: Buffer | null;
  readonly sha256: string;
  readonly etag: string | null;
}

async function readWhole({ destination, signal }: Place, key: string): Promise<FoundObject | null> {
  const object = await destination.readFile(key, { maxBytes, signal });
  if (object === null) return null;
  const hash = createHash('sha256');
  let chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of object.body) {
    hash.update(chunk);
    length += chunk.length;
    if (length <= heldBytes) chunks.push(chunk);
    else chunks = [];
  }
  const bytes = length <= heldBytes ? Buffer.concat(chunks) : null;
  return { bytes, sha256: hash.digest('hex'), etag: object.etag };
}

/**
 * Another statement is at a number of ours. If it is of this export and signed by us, our database is older than the bucket.
 * A chain begins after all that is there, and says so.
 *
 * @throws SluiceError if the statement is another export's
 */
async function beginAnew(
  { context }: StatementOptions,
  place: Place,
  number: number,
  ours: Buffer,
): Promise<void> {
  const { db } = context;
  const { exportId } = place;
  const keys = new Map((await listSigningKeys(db)).map((key) => [key.key_id, key.public_key]));
  const foreign: NewStatement[] = [];
  let [last, isOurs, lastDigest, held] = [number - 1, true, '', 0];
  for (; last < number - 1 + maxForeign; last += 1) {
    const there = await readWhole(place, `${place.folder}statements/${last + 1}.json`);
    if (there === null) break;
    const statement = there.bytes && (await readStatement(there.bytes));
    if (statement !== null && statement.batch_export_id !== exportId) {
      const detail = `the statements of the export ${statement.batch_export_id} are in ${place.folder}. Give one of them another prefix`;
      throw new SluiceError('destination.key_taken', detail);
    }
    // A store may give one statement for all numbers.
    const isNext = statement?.number === last + 1;
    const isSigned = statement !== null && isNext && isSignedByUs(statement, keys);
    isOurs &&= isSigned;
    lastDigest = there.sha256;
    held += there.bytes?.length ?? 0;
    // The others are in the bucket only.
    if (isSigned && there.bytes && held <= maxBytes) {
      foreign.push({ number: last + 1, sha256: lastDigest, body: there.bytes });
    }
  }
  if (last < number) {
    const detail = `the store says that there is a statement ${number}, and gives none`;
    throw new SluiceError('destination.invalid_answer', detail);
  }
  await failpoint('before_chain');
  const reason = isOurs ? 'restored' : 'replaced';
  const newest = { number: last, sha256: lastDigest };
  await db.transaction(async (tx) => {
    const now = await lockChain(tx, exportId);
    const still = await findStatement(tx, exportId, number);
    // Another process has done this already.
    if (now?.place !== place.name || !still?.equals(ours)) return;
    await beginChain(tx, exportId, reason, newest, number, foreign);
  });
}

interface FoundStatement {
  readonly batch_export_id: string;
  readonly number: number;
  readonly receipt: { readonly key_id: string; readonly signature: string };
}

const bounds = { values: 1_000_000, names: 1_000, depth: 12 } as const;

/** Null: the bytes are not canonical. Any writer of the bucket may have put them there. */
async function readCanonical(bytes: Buffer): Promise<Record<string, unknown> | null> {
  try {
    const value = (await parseForeignJson(bytes, bounds)) as Record<string, unknown> | null;
    return bytes.equals(canonicalBytes(value)) ? value : null;
  } catch {
    return null;
  }
}

/** Null: it is none. */
async function readStatement(bytes: Buffer): Promise<FoundStatement | null> {
  const value = await readCanonical(bytes);
  const isStatement =
    value?.type === 'sluice.statement.v1' && typeof value.batch_export_id === 'string';
  return isStatement ? (value as never) : null;
}

function isSignedByUs(
  { receipt, ...rest }: FoundStatement,
  keys: ReadonlyMap<string, string>,
): boolean {
  const key = keys.get(receipt?.key_id);
  return (
    key !== undefined &&
    typeof receipt.signature === 'string' &&
    isSignedBy(key, canonicalBytes(rest), receipt.signature)
  );
}
