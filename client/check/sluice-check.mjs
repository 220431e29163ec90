// Checks the receipts and statements of a Sluice export, without the service.
// docs/receipts.md describes the bytes, and what is checked.
//   node sluice-check.mjs PLACE [--since DATE] [--key KEY]… [--head NUMBER:DIGEST] [--deep]
//     [--document FILE] [--timeout SECONDS]
// It needs Node 20, or a browser with Ed25519. It exits with 0: right, 1: wrong, 2: not checked.
class Wrong extends Error {}
/** Fails with the first fault that is true. */
function refuse(where, faults) {
  for (const fault in faults) if (faults[fault]) throw new Wrong(`${where} ${fault}`);
}
const isText = (value) => typeof value === 'string';
const isHex = (value, length) => isText(value) && /^[0-9a-f]+$/.exec(value)?.[0].length === length;

/** RFC 8785, for whole numbers. */
function canonical(value, level = 0) {
  const isNumber = typeof value !== 'number' || Number.isSafeInteger(value);
  const isWhole = !isText(value) || value.isWellFormed();
  refuse('it', { 'has a wrong number, text or depth': !isNumber || !isWhole || level > 64 });
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one, level + 1)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const member = (name) => `${JSON.stringify(name)}:${canonical(value[name], level + 1)}`;
  return `{${Object.keys(value).sort().map(member).join(',')}}`;
}
const indented = (value) => canonical(value) && `${JSON.stringify(value, null, 2)}\n`;
const areSame = (one, other) => canonical(one) === canonical(other);
/** Writing what is read must give the same bytes, so no name is there twice. */
function parse(bytes, path, write) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const value = JSON.parse(text);
    refuse('it', { 'has other bytes': write(value) !== text });
    return value;
  } catch (error) {
    throw new Wrong(`${path} is not JSON as Sluice writes it: ${error.message.slice(0, 60)}`);
  }
}
const fromHex = (text) => Uint8Array.from(text.match(/../g), (pair) => Number.parseInt(pair, 16));
async function digestOf(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
/** Points of small order fit signatures of others. Those from 2^255 - 19 on have a second name. */
const unsafeKey = new RegExp('^(0[01](00){30}[08]0|(e[c-f]|f.)(ff){30}[7f]f'
  + '|26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc[08]5'
  + '|c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03[7f]a)$');
async function isSigned(value, signature, publicKey) {
  if (!isHex(signature, 128)) return false;
  const [name, { subtle }] = ['Ed25519', crypto];
  const key = await subtle.importKey('raw', fromHex(publicKey), name, false, ['verify']);
  const bytes = new TextEncoder().encode(canonical(value));
  return subtle.verify(name, key, fromHex(signature), bytes);
}

const sums = ['rows', 'bytes', 'files'];
const nothing = { rows: 0, bytes: 0, files: 0 };
const full = ['delivered', 'empty'];
/** The kinds of bookings, and what their notes must say. */
const states = { delivered: [], empty: [], open: [], not_due: [], accepted: ['by', 'reason'] };
const taken = { removed: ['by', 'request'], erased: ['request'] };
const changes = { supplement: [], remade: [], moved: [], ...taken };
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
const folder = '_sluice/statements/';
const largestJson = 64 * 1024 ** 2;

class Check {
  /** `intervals`: what the newest chain says. `owed`: what the one before had, and it has not. */
  constructor(place, { keys = [], since = '', ...options }) {
    Object.assign(this, { place, given: keys, since, options, lines: [], keys: [], heads: [] });
    Object.assign(this, { intervals: new Map(), owed: new Set(), named: new Set(), newer: 0 });
  }
  /** Gives `use` the path of an object, the value in it, and its digest. */
  async read(path, write, use) {
    const size = await this.place.size(path);
    refuse(path, { 'is missing': size === null, 'is too large': size > largestJson });
    const bytes = await new Response(await this.place.read(path)).arrayBuffer();
    try {
      return await use.call(this, path, parse(bytes, path, write), await digestOf(bytes));
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw new Wrong(`${path} has a wrong shape: ${error.message}`);
    }
  }

  async addKeys(path, list) {
    refuse(path, { 'has another type': list.type !== 'sluice.keys.v1' });
    for (const { signature, ...entry } of list.keys) {
      const { public_key: publicKey, signed_by: by } = entry;
      refuse(path, { 'has an unsafe key': !isHex(publicKey, 64) || unsafeKey.test(publicKey) });
      const fingerprint = await digestOf(fromHex(publicKey));
      const id = fingerprint.slice(0, 16);
      const signer = by === id ? { publicKey } : this.keys.at(-1);
      const isRight = signer && (await isSigned(entry, signature, signer.publicKey));
      refuse(path, { [`has a wrong signature of the key ${id}`]: !isRight });
      const isGiven = [publicKey, fingerprint].some((one) => this.given.includes(one));
      const isTrusted = this.given.length === 0 || isGiven || signer.isTrusted;
      this.keys.push({ id, fingerprint, publicKey, isTrusted, number: this.keys.length });
    }
    const names = this.keys.flatMap((key) => [key.publicKey, key.fingerprint]);
    for (const one of this.given) refuse(path, { [`has no key ${one}`]: !names.includes(one) });
  }
  /** The key that signed a value; undefined if none did. */
  async signerOf({ receipt, ...signed }) {
    const key = this.keys.find(({ id }) => id === receipt?.key_id);
    if (!key || receipt.algorithm !== 'Ed25519') return undefined;
    return (await isSigned(signed, receipt.signature, key.publicKey)) ? key : undefined;
  }

  async checkStatements() {
    const { place, heads, owed } = this;
    const pathOf = (number) => `${folder}${number}.json`;
    const next = () => pathOf(heads.length + 1);
    while ((await place.size(next())) !== null) {
      if (heads.length === 0) await this.read('_sluice/keys.json', canonical, this.addKeys);
      await this.read(next(), canonical, this.addStatement);
    }
    const listed = place.names?.filter((name) => name.startsWith(folder)) ?? heads;
    refuse(next(), { [`is missing, but not ${listed.at(-1)}`]: listed.length > heads.length });
    if (heads.length === 0) throw new Error('there is no statement');
    const { head = heads.at(-1) } = this.options;
    const isHead = heads.includes(head);
    refuse(pathOf(head.split(':')[0]), { 'is missing, or not the given head': !isHead });
    const { isTrusted, fingerprint } = this.signer;
    refuse(pathOf(heads.length), {
      [`lacks ${[...owed][0]}, which an earlier chain had delivered`]: owed.size > 0,
      [`is signed by ${fingerprint}, which follows from no given key`]: !isTrusted,
    });
    const trust = this.given.length > 0 ? 'is given, or follows from a given key'
      : 'is from the bucket. Who can write there could have put it there: use --key';
    this.lines.push(`Key ${fingerprint} ${trust}.`);
    this.lines.push(`Sluice listed the objects: ${canonical(this.newest.reconciliation)}`);
  }
  async addStatement(path, statement, digest) {
    const { newest, heads } = this;
    const { type, number, batch_export_id: id, previous, begins, period } = statement;
    const signer = await this.signerOf(statement);
    const before = newest ? { number: newest.number, sha256: heads.at(-1).split(':')[1] } : null;
    refuse(path, {
      'has no right signature': !signer,
      'is signed by an earlier key': signer?.number < this.signer?.number,
      'has another type or number': type !== 'sluice.statement.v1' || number !== heads.length + 1,
      'is of another export': !isText(id) || id !== (newest ?? statement).batch_export_id,
      'does not name the statement before': !areSame(previous, before),
      'skips a period': begins === null && period.start !== newest.period.end,
    });
    if (begins !== null) this.beginChain(period.start, number, begins);
    this.due = period.start;
    const opening = begins === null ? newest.balance.closing : nothing;
    const [delivered, removed, erased] = [{ ...nothing }, { ...nothing }, { ...nothing }];
    const balance = { opening, delivered, removed, erased, closing: {} };
    for (const booking of statement.bookings) this.book(booking, balance, path);
    for (const sum of sums)
      balance.closing[sum] = opening[sum] + delivered[sum] - removed[sum] - erased[sum];
    refuse(path, {
      [`has no interval at ${this.due}`]: this.due !== period.end,
      'has a balance that does not add up': !areSame(statement.balance, balance),
    });
    heads.push(`${number}:${digest}`);
    Object.assign(this, { newest: statement, signer });
  }
  beginChain(start, number, reason) {
    if (number > 1) this.lines.push(`Statement ${number} begins a chain: ${reason}`);
    for (const [from, { end, after }] of this.intervals)
      if (after.state === 'delivered') this.owed.add(`${from} to ${end}`);
    this.intervals.clear();
    this.began = start;
  }
  inOrder() {
    return [...this.intervals].sort(([one], [other]) => (one < other ? -1 : 1));
  }
  book({ kind, start, end, before, after, note }, balance, path) {
    const held = this.intervals.get(start) ?? { end, after: null };
    const old = before ?? nothing;
    // A backfill delivers intervals from before the first period: they do not tile it.
    const isNext = before === null && end > this.began;
    const isFull = full.includes(after.state);
    const isChange = Object.hasOwn(changes, kind) && isFull && full.includes(old.state);
    const isState = Object.hasOwn(states, kind) && kind === after.state;
    const zero = { delivered: [], empty: ['rows'] }[after.state] ?? sums;
    const mayFall = kind in taken || (kind === 'moved' && before.place !== after.place);
    refuse(`${path}: the interval from ${start} to ${end}`, {
      'has no length': !instant.test(start) || !instant.test(end) || start >= end,
      'is not as it was': !areSame(before, held.after) || end !== held.end,
      [`does not begin at ${this.due}`]: isNext && start !== this.due,
      'has a wrong kind, or a wrong state': !isChange && !isState,
      'has a wrong number': sums.some((sum) => !Number.isSafeInteger(after[sum]) || after[sum] < 0),
      'has rows, bytes or files': zero.some((sum) => after[sum] !== 0),
      'has no digest': isFull && after.manifest !== null && !isHex(after.manifest.sha256, 64),
      'does not say who asked': { ...states, ...changes }[kind]?.some((name) => !(name in note)),
      'loses rows': !mayFall && after.rows < old.rows,
    });
    for (const sum of sums) {
      if (kind in taken) balance[kind][sum] += old[sum] - after[sum];
      else balance.delivered[sum] += after[sum] - old[sum];
    }
    if (isNext) this.due = end;
    this.intervals.set(start, { end, after });
    if (after.state === 'delivered') this.owed.delete(`${start} to ${end}`);
  }

  async checkObjects() {
    const { name: here, prefix, table } = this.newest.place;
    const jobs = [];
    let [names, elsewhere, last] = [this.since === '' ? this.place.names : null, 0, ''];
    this.inside = prefix === '' ? '' : `${prefix}/`;
    for (const [start, { end, after }] of this.inOrder()) {
      refuse(start, { 'is in two intervals: they overlap': start < last });
      last = end;
      if (!full.includes(after.state) || end < this.since) continue;
      if (after.place !== here) elsewhere += 1;
      else if (after.manifest === null) names = null;
      else jobs.push(() => this.checkManifest(after.manifest.key, { start, end, after }));
    }
    while (jobs.length > 0) await Promise.all(jobs.splice(0, 16).map((job) => job()));
    if (names) await this.checkStrays(names, table === 'iceberg');
    else this.lines.push('Objects that no manifest names were not looked for.');
    if (elsewhere) this.lines.push(`${elsewhere} intervals at other places were left out.`);
    if (this.newer) this.lines.push(`${this.newer} manifests are newer than the statements.`);
  }
  pathOf(key) {
    const isInside = key.startsWith(this.inside) && !/(^|\/)\.{0,2}(\/|$)|[\0\\]/.test(key);
    refuse(key, { 'is not a key below the place': !isInside });
    return key.slice(this.inside.length);
  }
  async checkManifest(key, booked) {
    const use = (...found) => this.addManifest(booked, ...found);
    const files = await this.read(this.pathOf(key), indented, use);
    for (const file of files) await this.checkFile(file);
  }
  async addManifest(booked, path, manifest, digest) {
    const { data_interval_start: start, data_interval_end: end, generation, files } = manifest;
    const { format, compression, rejected_files: rejected } = manifest;
    const said = booked?.after;
    const isBooked = said?.manifest.sha256 === digest;
    const stated = this.intervals.get(start)?.after.generation ?? -1;
    const isNewer = generation > stated || (!booked && 'moved_to' in manifest);
    const total = (list, name) => list.reduce((sum, file) => sum + file[name], 0);
    const [rows, bytes] = [total(files, 'rows'), total(files, 'bytes')];
    refuse(path, {
      'is of another export': manifest.batch_export_id !== this.newest.batch_export_id,
      'is of another interval': booked && (start !== booked.start || end !== booked.end),
      'has no right receipt': !isBooked && !(await this.signerOf(manifest))?.isTrusted,
      'is not newer than the statements': !isBooked && !isNewer,
      'has other totals than its files': rows !== manifest.total_rows
        || bytes !== manifest.total_bytes || total(rejected, 'rows') !== manifest.rejected_rows,
      'has other totals than its booking': isBooked && !areSame([generation, rows, bytes,
        files.length], [said.generation, said.rows, said.bytes, said.files]),
    });
    if (!isBooked) this.newer += 1;
    for (const name of [path, ...[...files, ...rejected].map(({ key }) => this.pathOf(key))]) {
      refuse(name, { 'is named twice': this.named.has(name) });
      this.named.add(name);
    }
    const lines = rejected.map((file) => ({ ...file, format: 'JSONLines', compression: null }));
    return [...files.map((file) => ({ ...file, format, compression })), ...lines];
  }
  async checkFile({ key, bytes, rows, sha256, format, compression }) {
    const path = this.pathOf(key);
    const size = await this.place.size(path);
    refuse(path, { 'is missing': size === null });
    refuse(path, { [`has ${size} bytes instead of ${bytes}`]: size !== bytes });
    if (!this.options.deep) return;
    const { createHash } = await import('node:crypto');
    const { createGunzip } = await import('node:zlib');
    const { pipeline } = await import('node:stream');
    const hash = createHash('sha256');
    for await (const piece of await this.place.read(path)) hash.update(piece);
    refuse(path, { 'has another SHA-256 than its manifest says': hash.digest('hex') !== sha256 });
    if (!['JSONLines', 'CSV'].includes(format) || ![null, 'gzip'].includes(compression)) return;
    const stream = await this.place.read(path);
    let [lines, isQuoted] = [0, false];
    for await (const piece of compression ? pipeline(stream, createGunzip(), () => {}) : stream)
      for (const byte of piece) {
        if (byte === 0x22 && format === 'CSV') isQuoted = !isQuoted;
        if (byte === 0x0a && !isQuoted) lines += 1;
      }
    const isRight = lines === rows || (format === 'CSV' && lines === rows + 1);
    refuse(path, { [`has ${lines} rows instead of ${rows}`]: !isRight });
  }
  async checkStrays(names, isTable) {
    const besides = /^(_sluice|metadata)\/|(^|\/)\.sluice-(test|owner)-[^/]*$/;
    const isStray = (name) => !this.named.has(name) && !besides.test(name);
    const isManifest = (name) => name.endsWith('_manifest.json') && isStray(name);
    for (const name of names.filter(isManifest)) await this.checkManifest(this.inside + name);
    const strays = names.filter(isStray);
    refuse(strays[0], { 'is in no manifest': strays.length > 0 && !isTable });
    if (strays.length) this.lines.push(`${strays.length} objects are in no manifest: a table's.`);
  }
  /** A certificate or a record is signed, and names statements that are here. */
  async checkDocument(bytes) {
    const end = bytes.at(-1) === 0x0a ? '\n' : '';
    const document = parse(bytes, 'the document', (value) => canonical(value) + end);
    const { intervals, exports = [{ ...document, statement: null }] } = document;
    const own = exports.filter((one) => one.batch_export_id === this.newest.batch_export_id);
    const named = own.flatMap((one) => one.statement ?? intervals.map((part) => part.statement));
    const isHere = ({ number, sha256 }) => this.heads.includes(`${number}:${sha256}`);
    refuse('the document', {
      'has no right signature': !(await this.signerOf(document))?.isTrusted,
      'names other statements, or none': named.length === 0 || !named.every(isHere),
    });
  }
  months() {
    const months = {};
    const zero = { intervals: 0, delivered: 0, empty: 0, accepted: 0, open: 0, rows: 0, bytes: 0 };
    for (const [start, { after }] of this.inOrder()) {
      months[start.slice(0, 7)] ??= { ...zero };
      const month = months[start.slice(0, 7)];
      month.intervals += 1;
      if (after.state in month) month[after.state] += 1;
      for (const sum of ['rows', 'bytes']) month[sum] += after[sum];
    }
    return Object.entries(months).map(([month, counts]) =>
      [month, ...Object.entries(counts).flat()].join(' '));
  }
}

function ended(error) {
  const [exit, word] = error instanceof Wrong ? [1, 'WRONG'] : [2, 'NOT CHECKED'];
  return { exit, lines: [`${word}: ${error.message.slice(0, 500)}`] };
}
/** A place has `names` of all objects or null, `size(path)` or null, and `read(path)`, a stream. */
export async function check(place, options = {}) {
  const job = new Check(place, options);
  let end;
  try {
    await job.checkStatements();
    await job.checkObjects();
    if (options.document) await job.checkDocument(options.document);
    end = { exit: 0, lines: [`Right. The head is ${job.heads.at(-1)}`] };
  } catch (error) {
    end = ended(error);
  }
  const lines = [...job.months(), ...job.lines, ...end.lines];
  return { exit: end.exit, lines: lines.map((line) => line.replace(/\p{C}/gu, '?')) };
}

function overHttp(names, addressOf, seconds) {
  const open = async (path) => {
    const address = addressOf(path);
    if (address === undefined) return null;
    const signal = AbortSignal.timeout(seconds * 1000);
    const headers = { 'accept-encoding': 'identity' };
    const response = await fetch(address, { headers, signal }).catch(({ message, cause }) => {
      throw new Error(`${path}: ${cause?.message ?? message}`);
    });
    if (response.status === 200 && response.headers.has('content-length')) return response;
    await response.body?.cancel();
    if ([403, 404, 410].includes(response.status)) return null;
    throw new Error(`${path}: the store answered with ${response.status}, or with no size`);
  };
  const size = async (path) => {
    const response = await open(path);
    await response?.body?.cancel();
    return response && Number(response.headers.get('content-length'));
  };
  return { names, size, read: async (path) => (await open(path)).body };
}
async function placeOf(text, seconds) {
  const { createReadStream, promises: files } = await import('node:fs');
  const { Readable } = await import('node:stream');
  const { join, relative, sep } = await import('node:path');
  if (/^https?:/.test(text)) {
    const [, base, query = ''] = /^(.*?)\/*(\?.*)?$/s.exec(text);
    const encoded = (path) => path.split('/').map(encodeURIComponent).join('/');
    return overHttp(null, (path) => `${base}/${encoded(path)}${query}`, seconds);
  }
  if (!(await files.stat(text)).isDirectory()) {
    const addresses = new Map(Object.entries(JSON.parse(await files.readFile(text, 'utf8'))));
    return overHttp([...addresses.keys()], (path) => addresses.get(path), seconds);
  }
  const sizes = new Map();
  for (const entry of await files.readdir(text, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) continue;
    const file = join(entry.parentPath ?? entry.path, entry.name);
    const path = relative(text, file).split(sep).join('/');
    refuse(path, { 'is not a file': !entry.isFile() });
    sizes.set(path, (await files.stat(file)).size);
  }
  const read = (path) => Readable.toWeb(createReadStream(join(text, path)));
  return { names: [...sizes.keys()], size: (path) => sizes.get(path) ?? null, read };
}
async function main(args) {
  const { readFile } = await import('node:fs/promises');
  const { parseArgs } = await import('node:util');
  const text = { type: 'string' };
  const options = { since: text, key: { ...text, multiple: true }, head: text, document: text,
    deep: { type: 'boolean' }, timeout: { ...text, default: '600' } };
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  const { key: keys, since = '', document, timeout, ...more } = values;
  if (positionals.length !== 1) throw new Error('give one folder, address or file of addresses');
  if (!/^(\d{4}-\d\d-\d\d)?$/.test(since)) throw new Error('--since is not like 2026-11-30');
  const place = await placeOf(positionals[0], Number(timeout));
  return check(place, { keys, since, document: document && (await readFile(document)), ...more });
}
const program = globalThis.process?.argv?.[1];
const { realpathSync, pathToFileURL } = program
  ? { ...(await import('node:fs')), ...(await import('node:url')) } : {};
if (program && pathToFileURL(realpathSync(program)).href === import.meta.url) {
  const { exit, lines } = await main(process.argv.slice(2)).catch(ended);
  process.stdout.write(`${lines.join('\n')}\n`, () => process.exit(exit));
}
