import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { gzipSync } from 'node:zlib';

/** Writes the bucket of an export with its receipts and statements: by docs/receipts.md alone, without the code of the service. */

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };
const sums = ['rows', 'bytes', 'files'] as const;
type Sums = Record<(typeof sums)[number], number>;

export interface Row {
  readonly id: number;
  readonly person: string;
}
interface FileEntry {
  readonly key: string;
  readonly generation: number;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}
type After = JsonObject & Sums & { readonly state: string };
export interface Interval {
  readonly start: string;
  readonly end: string;
  after: After | null;
  generation: number;
  /** The rows of each current file, in order. */
  files: { readonly entry: FileEntry; readonly rows: readonly Row[] }[];
  manifest: string | null;
}
interface SigningKey {
  readonly id: string;
  readonly publicKey: string;
  readonly fingerprint: string;
  readonly secret: KeyObject;
}
export type Format = 'jsonl' | 'jsonl.gz' | 'csv' | 'csv.gz';

export interface HistoryOptions {
  readonly prefix?: string;
  readonly format?: Format;
  readonly firstTick?: string;
  readonly intervalMs?: number;
  /** Chooses the keys. */
  readonly seed?: number;
}

export const sha256Of = (bytes: Buffer | string) =>
  createHash('sha256').update(bytes).digest('hex');

/** RFC 8785. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const pairs = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${pairs.map(([name, one]) => `${JSON.stringify(name)}:${canonical(one)}`).join(',')}}`;
}

/** The key of a seed of 32 bytes, in the DER form of PKCS #8. */
export function keyOf(seed: string): SigningKey {
  const der = Buffer.concat([
    Buffer.from('302e020100300506032b657004220420', 'hex'),
    createHash('sha256').update(seed).digest(),
  ]);
  const secret = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  const raw = createPublicKey(secret).export({ format: 'der', type: 'spki' }).subarray(-32);
  const fingerprint = sha256Of(raw);
  return { id: fingerprint.slice(0, 16), publicKey: raw.toString('hex'), fingerprint, secret };
}

export const signed = (value: JsonObject, key: SigningKey): string =>
  sign(null, Buffer.from(canonical(value)), key.secret).toString('hex');

export const withReceipt = (value: JsonObject, key: SigningKey): JsonObject => ({
  ...value,
  receipt: { key_id: key.id, algorithm: 'Ed25519', signature: signed(value, key) },
});

export class DeliveryHistory {
  /** The bucket: each key with its bytes. */
  readonly objects = new Map<string, Buffer>();
  readonly keys: SigningKey[] = [];
  readonly intervals: Interval[] = [];
  /** The intervals that chains had before the newest began. */
  head: { number: number; sha256: string } | null = null;
  prefix: string;
  /** Changes each manifest before it is signed: for what the signer itself may do wrong. */
  alter: (manifest: JsonObject) => JsonObject = (same) => same;
  /** What a row of JSON Lines has. */
  describe: (row: Row) => JsonObject = (row) => ({ ...row });
  private readonly entries: JsonObject[] = [];
  private readonly format: Format;
  readonly exportId = '0f0e0d0c-0000-4000-8000-000000000001';
  private readonly intervalMs: number;
  private readonly seed: number;
  private begins: string | null = 'first';
  private bookings: JsonObject[] = [];
  private parts = zeroParts();
  private closing: Sums = { rows: 0, bytes: 0, files: 0 };
  private periodStart: string;
  private readonly firstTick: string;
  private clock: number;
  private nextId = 1;
  private nextFile = 1;

  constructor(options: HistoryOptions = {}) {
    this.prefix = options.prefix ?? 'events';
    this.format = options.format ?? 'jsonl';
    this.seed = options.seed ?? 1;
    this.intervalMs = options.intervalMs ?? 3_600_000;
    this.firstTick = options.firstTick ?? '2026-11-30T00:00:00.000000Z';
    this.periodStart = this.firstTick;
    this.clock = Date.parse(this.firstTick);
    this.addKey('own');
  }

  /** `next`: signed by the key before. `own`: after a lost private key, or the first. */
  addKey(signer: 'next' | 'own', key = keyOf(`${this.seed} ${this.keys.length}`)): void {
    const by = signer === 'own' ? key : this.newestKey();
    const entry = {
      key_id: key.id,
      algorithm: 'Ed25519',
      public_key: key.publicKey,
      created_at: this.now(),
      signed_by: by.id,
    };
    this.keys.push(key);
    this.entries.push({ ...entry, signature: signed(entry, by) });
    this.putKeys(this.entries);
  }
  putKeys(keys: readonly JsonObject[]): void {
    this.put('_sluice/keys.json', canonical({ type: 'sluice.keys.v1', keys }));
  }
  newestKey(): SigningKey {
    const key = this.keys.at(-1);
    if (!key) throw new Error('no key');
    return key;
  }

  /** The next interval, with files of so many rows. */
  deliver(...rowsOfFiles: number[]): Interval {
    const interval = this.next();
    this.redeliver(interval, ...rowsOfFiles);
    return interval;
  }
  /** An interval of the past, before the first period. It is in no list here. */
  backfill(start: string, rows: number): void {
    const end = timestamp(Date.parse(start) + this.intervalMs);
    this.redeliver({ start, end, after: null, generation: 0, files: [], manifest: null }, rows);
  }
  /** The next interval without rows: `empty` has a manifest. */
  skip(state: 'empty' | 'open' | 'not_due'): Interval {
    const interval = this.next();
    if (state === 'empty') this.commit(interval, 'empty', [], null);
    else this.book(interval, state, { state, rows: 0, bytes: 0, files: 0 }, null);
    return interval;
  }
  /** An interval that was open, or accepted as missing. */
  redeliver(interval: Interval, ...rowsOfFiles: number[]): void {
    const files = rowsOfFiles.map((count) => this.makeRows(count));
    this.commit(interval, 'delivered', this.putFiles(interval, files), null);
  }
  accept(interval: Interval): void {
    const after = { state: 'accepted', rows: 0, bytes: 0, files: 0 };
    this.book(interval, 'accepted', after, { by: 'someone', reason: 'the source was restored' });
  }
  supplement(interval: Interval, rows: number): void {
    const added = this.putFiles(interval, [this.makeRows(rows)]);
    this.commit(interval, 'supplement', [...interval.files, ...added], null);
  }
  remake(interval: Interval, moreRows: number): void {
    const rows = [...rowsOf(interval), ...this.makeRows(moreRows)];
    this.commit(interval, 'remade', this.putFiles(interval, [rows]), null);
  }
  remove(interval: Interval, rows: number): void {
    const left = rowsOf(interval).slice(rows);
    const files = left.length === 0 ? [] : this.putFiles(interval, [left]);
    this.commit(interval, 'removed', files, { by: 'someone', request: 'r-1', shown: rows });
  }
  erase(interval: Interval, person: string): void {
    const without = interval.files.flatMap((file) => {
      const rows = file.rows.filter((row) => row.person !== person);
      if (rows.length === file.rows.length) return [file];
      return rows.length === 0 ? [] : this.putFiles(interval, [rows]);
    });
    const note = { request: 'e-1', asked_at: interval.end, files: [] };
    this.commit(interval, 'erased', without, note);
  }
  /** The export delivers to another prefix from here on. Its statements and keys are there too. */
  move(prefix: string): void {
    for (const [key, bytes] of [...this.objects]) {
      if (!key.startsWith(`${this.prefix}/_sluice/`)) continue;
      this.objects.set(prefix + key.slice(this.prefix.length), bytes);
      this.objects.delete(key);
    }
    this.prefix = prefix;
  }
  /** An interval is made again at the new prefix. */
  moveInterval(interval: Interval): void {
    interval.manifest = null;
    const files = this.putFiles(interval, [rowsOf(interval)]);
    this.commit(interval, 'moved', files, null);
  }

  /** What the next statement says is not what the one before led to: its chain begins again with all intervals as they are. */
  beginChain(reason: 'restored' | 'replaced'): void {
    this.begins = reason;
    this.bookings = [];
    this.closing = { rows: 0, bytes: 0, files: 0 };
    this.parts = zeroParts();
    this.periodStart = this.firstTick;
    for (const interval of this.intervals) {
      const { after } = interval;
      interval.after = null;
      if (after) this.book(interval, after.state, after, noteOf(after.state));
    }
  }

  state(change: (statement: JsonObject) => JsonObject = (same) => same): void {
    const number = (this.head?.number ?? 0) + 1;
    const opening = this.closing;
    const { delivered, removed, erased } = this.parts;
    const closing = sumsOf((sum) => opening[sum] + delivered[sum] - removed[sum] - erased[sum]);
    const end = this.intervals.at(-1)?.end ?? this.firstTick;
    const statement: JsonObject = {
      type: 'sluice.statement.v1',
      batch_export_id: this.exportId,
      number,
      previous: this.head && { ...this.head },
      begins: this.begins,
      made_at: this.now(),
      era: 'e-1',
      place: { name: this.place(), prefix: this.prefix },
      period: { start: this.periodStart, end },
      schedule: { interval: 'hour', timezone: 'UTC', offset_seconds: 0 },
      source: { server: null, database: 'shop' },
      definition: {
        model: sha256Of('m'),
        query: sha256Of('q'),
        transformations: sha256Of('t'),
        text: { model: 'événements 😀 \u007f\u2028\u0001"\\', query: null, transformations: null },
      },
      bookings: this.bookings,
      balance: { opening: { ...opening }, delivered, removed, erased, closing },
      reconciliation: {
        ...{ state: 'not_listed', at: null, reason: 'no rights' },
        ...{ missing: [], changed: [], stray: [], more: 0 },
      },
      acknowledged: null,
    };
    const bytes = canonical(withReceipt(change(statement), this.newestKey()));
    this.put(`_sluice/statements/${number}.json`, bytes);
    this.head = { number, sha256: sha256Of(bytes) };
    this.begins = null;
    this.bookings = [];
    this.parts = zeroParts();
    this.closing = closing;
    this.periodStart = end;
  }

  rows(): Row[] {
    return this.intervals.flatMap(rowsOf);
  }

  private put(path: string, bytes: string | Buffer): string {
    const key = this.prefix === '' ? path : `${this.prefix}/${path}`;
    this.objects.set(key, Buffer.from(bytes));
    return key;
  }
  private place(): string {
    return ['s3://bucket', this.prefix].filter((part) => part !== '').join('/');
  }
  private now(): string {
    this.clock += 1;
    return timestamp(this.clock);
  }
  private next(): Interval {
    const start = this.intervals.at(-1)?.end ?? this.firstTick;
    const end = timestamp(Date.parse(start) + this.intervalMs);
    const interval = { start, end, after: null, generation: 0, files: [], manifest: null };
    this.intervals.push(interval);
    return interval;
  }
  private makeRows(count: number): Row[] {
    return Array.from({ length: count }, () => {
      const id = this.nextId++;
      return { id, person: `p${id % 3}` };
    });
  }
  private putFiles(interval: Interval, files: readonly (readonly Row[])[]): Interval['files'] {
    const generation = interval.generation + 1;
    return files.map((rows) => {
      const isCsv = this.format.startsWith('csv');
      const line = ({ id, person }: Row) =>
        isCsv ? `${id},"${person}\n"\n` : `${JSON.stringify(this.describe({ id, person }))}\n`;
      const text = (isCsv ? 'id,person\n' : '') + rows.map(line).join('');
      const bytes = this.format.endsWith('.gz') ? gzipSync(text) : Buffer.from(text);
      const name = `${compact(interval.start)}-${compact(interval.end)}`;
      const key = this.put(`${name}.v${generation}-${this.nextFile++}.${this.format}`, bytes);
      const entry = {
        key,
        generation,
        rows: rows.length,
        bytes: bytes.length,
        sha256: sha256Of(bytes),
      };
      return { entry, rows };
    });
  }
  private commit(interval: Interval, kind: string, files: Interval['files'], note: Json): void {
    const entries = files.map(({ entry }) => entry);
    const rows = sum(entries, (entry) => entry.rows);
    const bytes = sum(entries, (entry) => entry.bytes);
    interval.generation += 1;
    const manifest = withReceipt(
      this.alter({
        batch_export_id: this.exportId,
        run_id: 'run',
        attempt: 1,
        generation: interval.generation,
        era: 'e-1',
        data_interval_start: interval.start,
        data_interval_end: interval.end,
        format: this.format.startsWith('csv') ? 'CSV' : 'JSONLines',
        compression: this.format.endsWith('.gz') ? 'gzip' : null,
        schema: [{ name: 'identité', type: 'int8' }],
        total_rows: rows,
        total_bytes: bytes,
        files: entries.map((entry) => ({ ...entry })),
        rejected_rows: 0,
        rejected_files: [],
      }),
      this.newestKey(),
    );
    const text = `${JSON.stringify(manifest, null, 2)}\n`;
    const name = `${compact(interval.start)}-${compact(interval.end)}_manifest.json`;
    interval.manifest = this.put(name, text);
    const current = new Set(entries.map(({ key }) => key));
    for (const { entry } of interval.files)
      if (!current.has(entry.key)) this.objects.delete(entry.key);
    interval.files = files;
    const after = {
      state: rows === 0 ? 'empty' : 'delivered',
      place: this.place(),
      manifest: { key: interval.manifest, sha256: sha256Of(text) },
      generation: interval.generation,
      rows,
      bytes,
      files: entries.length,
      key_digest: null,
      settled: true,
      pending: [],
    };
    this.book(interval, kind, after, note);
  }
  private book(interval: Interval, kind: string, after: After, note: Json): void {
    const part = kind === 'removed' || kind === 'erased' ? kind : 'delivered';
    for (const sum of sums) {
      const change = after[sum] - (interval.after?.[sum] ?? 0);
      this.parts[part][sum] += part === 'delivered' ? change : -change;
    }
    const { start, end, after: before } = interval;
    this.bookings.push({ kind, start, end, at: this.now(), before, after, note });
    interval.after = after;
  }
}

export const timestamp = (ms: number) => `${new Date(ms).toISOString().slice(0, -1)}000Z`;
const compact = (instant: string) => instant.replaceAll(/[-:]|\.0+(?=Z)/g, '');
const rowsOf = (interval: Interval) => interval.files.flatMap(({ rows }) => rows);
const noteOf = (state: string) => (state === 'accepted' ? { by: null, reason: null } : null);
const zeroParts = () => ({
  delivered: sumsOf(() => 0),
  removed: sumsOf(() => 0),
  erased: sumsOf(() => 0),
});
function sumsOf(value: (sum: keyof Sums) => number): Sums {
  return { rows: value('rows'), bytes: value('bytes'), files: value('files') };
}
function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
