/** @import { ReaderOptions } from './index.js' */

const mebibyte = 1024 ** 2;
/** Sizes that docs/receipts.md names. */
const mostBytes = { keys: mebibyte, statement: 64 * mebibyte, manifest: 16 * mebibyte };

/** Something in the bucket is not as it was signed, or is missing. */
export class ReceiptError extends Error {
  name = 'ReceiptError';
}
function must(isRight, what) {
  if (!isRight) throw new ReceiptError(what);
}

/** @type {typeof import('./index.js').readChanges} */
export async function* readChanges(options) {
  const { cursor = null } = options;
  const bucket = new Bucket(options);
  const { bookings, newest, digest, chains } = await bucket.bookingsSince(cursor);
  if (newest === null || digest === cursor?.sha256) return;
  let waiting = 0;
  for (const { start, end, after, kinds } of bookings.values()) {
    const delivered = await bucket.deliveredOf({ start, end, after });
    if (delivered === null) {
      waiting += 1;
      continue;
    }
    const { files, mode, element } = delivered;
    const held = await options.heldFiles({ start, end });
    const current = new Set(files.map(({ id }) => id));
    yield {
      type: 'interval',
      start,
      end,
      kinds,
      state: after.state,
      rows: after.rows,
      mode,
      element,
      add: files.filter(({ id }) => !held.includes(id)),
      remove: held.filter((id) => !current.has(id)),
    };
  }
  yield { type: 'cursor', cursor: { number: newest.number, sha256: digest }, chains, waiting };
}

const none = { files: [], mode: null, element: null };

class Bucket {
  keys = [];

  /** @param {ReaderOptions} options */
  constructor({ readObject, prefix = '', keys = [], trustBucket = false }) {
    if (keys.length === 0 && !trustBucket) {
      throw new TypeError(
        'keys is empty. Give a public key or a fingerprint, or set trustBucket: true.',
      );
    }
    this.read = readObject;
    this.folder = `${prefix === '' ? '' : `${prefix}/`}_sluice/`;
    this.given = keys;
  }

  async bytesOf(key, place, most) {
    const bytes = await this.read(key, place);
    if (bytes !== null) must(bytes.length <= most, `${key} has more than ${most} bytes`);
    return bytes;
  }

  /** The last booking of each interval that statements after the cursor name, in the order of these. */
  async bookingsSince(cursor) {
    let number = cursor?.number ?? 1;
    let newest = null;
    let digest = null;
    let signer = null;
    const bookings = new Map();
    const chains = [];
    for (; ; number += 1) {
      const key = `${this.folder}statements/${number}.json`;
      const bytes = await this.bytesOf(key, null, mostBytes.statement);
      if (bytes === null) break;
      if (newest === null) await this.readKeys();
      const statement = parse(bytes, key, canonical);
      const by = await this.signerOf(statement);
      must(by, `${key} has no right signature`);
      must(signer === null || by.number >= signer.number, `${key} is signed by an earlier key`);
      checkShape(statement, number, key);
      const isAtCursor = number === cursor?.number;
      if (newest !== null) checkLink(statement, newest, digest, key);
      else must(isAtCursor || statement.previous === null, `${key} is not the first statement`);
      [newest, digest, signer] = [statement, await digestOf(bytes), by];
      this.exportId = statement.batch_export_id;
      if (isAtCursor) must(digest === cursor.sha256, `${key} is not the statement of the cursor`);
      else {
        if (statement.begins !== null && statement.begins !== 'first') {
          chains.push({ number, reason: statement.begins });
        }
        for (const booking of statement.bookings) collect(bookings, booking, key);
      }
    }
    must(newest !== null || cursor === null, `the statement of the cursor is missing`);
    must(
      signer === null || signer.isTrusted,
      'the newest statement is signed by a key that does not follow from a given key',
    );
    return { bookings, newest, digest, chains };
  }

  /** The files of an interval by its manifest, and their mode; null if the manifest is newer than the newest statement. */
  async deliveredOf({ start, end, after }) {
    if (after.state !== 'delivered' && after.state !== 'empty') return none;
    const { manifest: named, place } = after;
    must(named !== null, `the interval of ${start} has no manifest, so its files are not known`);
    const bytes = await this.bytesOf(named.key, place, mostBytes.manifest);
    must(bytes !== null, `${named.key} is missing`);
    const manifest = parse(bytes, named.key, indented);
    const isOurs =
      manifest.batch_export_id === this.exportId && manifest.data_interval_start === start;
    must(isOurs && manifest.data_interval_end === end, `${named.key} is of another interval`);
    if ((await digestOf(bytes)) !== named.sha256) {
      const signer = await this.signerOf(manifest);
      const isNewer = signer?.isTrusted && manifest.generation > after.generation;
      must(isNewer, `${named.key} is not the manifest that the statement names`);
      return null;
    }
    must(Array.isArray(manifest.files), `${named.key} has no files`);
    const files = manifest.files.map((file) => this.fileOf(file, manifest, place));
    return { files, mode: manifest.mode ?? 'append', element: manifest.element ?? null };
  }

  fileOf({ key, rows, bytes, sha256 }, { format, compression }, place) {
    const read = async () => {
      const content = await this.read(key, place);
      must(content !== null, `${key} is missing`);
      const isWhole = content.length === bytes && (await digestOf(content)) === sha256;
      must(isWhole, `${key} has other bytes than its manifest says`);
      return content;
    };
    return { id: `${key} ${sha256}`, key, place, format, compression, rows, bytes, sha256, read };
  }

  async readKeys() {
    const name = `${this.folder}keys.json`;
    const bytes = await this.bytesOf(name, null, mostBytes.keys);
    must(bytes !== null, `${name} is missing`);
    const list = parse(bytes, name, canonical);
    must(
      list.type === 'sluice.keys.v1' && Array.isArray(list.keys),
      `${name} is not a list of keys`,
    );
    for (const { signature, ...entry } of list.keys) {
      const { key_id: id, public_key: publicKey, signed_by: by } = entry;
      must(isHex(publicKey, 64), `${name} has a wrong public key`);
      const fingerprint = await digestOf(fromHex(publicKey));
      const signer = by === id ? { id, publicKey, isTrusted: false } : this.keys.at(-1);
      const isNew = id === fingerprint.slice(0, 16) && !this.keys.some((key) => key.id === id);
      must(isNew && by === signer?.id, `${name}: key ${id} has a wrong id or signer`);
      must(
        await isSigned(entry, signature, signer.publicKey),
        `${name}: key ${id} has a wrong signature`,
      );
      const isGiven = this.given.includes(publicKey) || this.given.includes(fingerprint);
      const isTrusted = this.given.length === 0 || isGiven || signer.isTrusted;
      this.keys.push({ id, publicKey, isTrusted, number: this.keys.length });
    }
  }

  /** The key that signed a statement or a manifest; undefined if its receipt is not right. */
  async signerOf({ receipt, ...signed }) {
    const key = this.keys.find(({ id }) => id === receipt?.key_id);
    return key && (await isSigned(signed, receipt.signature, key.publicKey)) ? key : undefined;
  }
}

function checkShape({ type, number, bookings }, expected, key) {
  must(type === 'sluice.statement.v1' && number === expected, `${key} has another number or type`);
  must(Array.isArray(bookings), `${key} has no bookings`);
}

function checkLink({ previous, batch_export_id: id }, before, digest, key) {
  must(id === before.batch_export_id, `${key} is of another export`);
  const isNamed = previous?.sha256 === digest && previous.number === before.number;
  must(isNamed, `${key} does not name the statement before`);
}

function collect(bookings, { start, end, kind, after }, key) {
  must(typeof start === 'string' && isObject(after), `${key} has a booking without an interval`);
  const kinds = [...(bookings.get(start)?.kinds ?? []), kind];
  bookings.delete(start);
  bookings.set(start, { start, end, after, kinds });
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isHex = (value, digits) =>
  typeof value === 'string' && value.length === digits && /^[0-9a-f]*$/.test(value);
const fromHex = (text) =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
async function digestOf(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** RFC 8785, for values with ASCII names and whole numbers. */
function canonical(value, level = 0) {
  must(level <= 64, 'nested too deep');
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one, level + 1)).join(',')}]`;
  if (typeof value === 'number') must(Number.isSafeInteger(value), 'a number is not whole');
  if (!isObject(value)) return JSON.stringify(value);
  const pairs = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonical(value[name], level + 1)}`);
  return `{${pairs.join(',')}}`;
}
const indented = (value) => `${JSON.stringify(value, null, 2)}\n`;

function parse(bytes, key, write) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const value = JSON.parse(text);
    must(isObject(value) && canonical(value) && write(value) === text, 'the value has other bytes');
    return value;
  } catch (error) {
    throw new ReceiptError(`${key} is not JSON as Sluice writes it: ${error.message}`);
  }
}

async function isSigned(value, signature, publicKey) {
  if (!isHex(signature, 128)) return false;
  const key = await crypto.subtle.importKey('raw', fromHex(publicKey), 'Ed25519', false, [
    'verify',
  ]);
  const bytes = new TextEncoder().encode(canonical(value));
  return crypto.subtle.verify('Ed25519', key, fromHex(signature), bytes);
}
