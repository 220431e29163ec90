// Checks the receipts and statements of a Sluice export, without the service.
// docs/receipts.md describes the bytes, and what is checked.
//   node sluice-check.mjs PLACE [--since DATE] [--key KEY]… [--head NUMBER:DIGEST] [--deep]
//     [--document FILE]
// It needs Node 20, or a browser with Ed25519. It exits with 0: right, 1: wrong, 2: not checked.
class Wrong extends Error {}
const must = (isRight, fault) => { if (!isRight) throw new Wrong(fault); };

/** RFC 8785, for whole numbers. */
function canonical(value) {
  if (typeof value === 'number') must(Number.isSafeInteger(value), 'is JSON with a wrong number');
  if (typeof value === 'string') must(value.isWellFormed(), 'is JSON with half a character');
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const member = (name) => `${JSON.stringify(name)}:${canonical(value[name])}`;
  return `{${Object.keys(value).sort().map(member).join()}}`;
}
const indented = (value) => canonical(value) && `${JSON.stringify(value, null, 2)}\n`;
const areSame = (one, other) => canonical(one) === canonical(other);
const isHex = (value, digits) => value?.length === digits && /^[0-9a-f]+$/.test(value);
const fromHex = (text) => Uint8Array.from(text.match(/../g), (pair) => Number.parseInt(pair, 16));
async function digestOf(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
async function isSigned(value, signature, publicKey) {
  const { subtle } = crypto;
  const key = await subtle.importKey('raw', fromHex(publicKey), 'Ed25519', false, ['verify']);
  const bytes = new TextEncoder().encode(canonical(value));
  return isHex(signature, 128) && subtle.verify('Ed25519', key, fromHex(signature), bytes);
}

const [folder, largestJson] = ['_sluice/statements/', 64 * 1024 ** 2];
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
const sums = ['rows', 'bytes', 'files'];
const nothing = { rows: 0, bytes: 0, files: 0 };
const full = ['delivered', 'empty'];
/** The kinds of bookings, and what their notes say. */
const kinds = { delivered: [], empty: [], open: [], not_due: [], accepted: ['by', 'reason'],
  supplement: [], remade: [], moved: [], removed: ['by', 'request'], erased: ['request'] };

class Check {
  lines = []; keys = []; heads = []; named = new Set(); newer = 0; fewer = 0; missing = 0;
  /** What the newest chain says of each interval; rows that an earlier one had, and it not yet. */
  intervals = new Map(); owed = new Map();
  constructor(place, { keys = [], since = '', ...options }) {
    Object.assign(this, { place, given: keys, since, ...options });
  }
  async run() {
    await this.checkStatements();
    await this.checkObjects();
    const { document } = this;
    const text = document?.at(-1) === 0x0a ? document.subarray(0, -1) : document;
    if (document) await this.parse('the document', text, canonical, this.addDocument);
  }
  /** What `use` makes of the value in an object; null if there is no such object. */
  async read(path, write, use) {
    const found = await this.place.open(path);
    if (found === null) return null;
    must(found.size <= largestJson, `${path} is too large`);
    return this.parse(path, await new Response(found.body).arrayBuffer(), write, use);
  }
  /** Writing what is read must give the same bytes, so no name is there twice. */
  async parse(path, bytes, write, use) {
    try {
      const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
      const value = JSON.parse(text);
      must(write(value) === text, 'is JSON with other bytes');
      return await use.call(this, value, await digestOf(bytes), path);
    } catch ({ message }) {
      // Another shape throws a TypeError.
      throw new Wrong(`${path} ${message}`);
    }
  }

  async addKeys({ type, keys }) {
    must(type === 'sluice.keys.v1', 'has another type');
    for (const { signature, ...entry } of keys) {
      const publicKey = entry.public_key;
      must(isHex(publicKey, 64), 'has a wrong public key');
      const fingerprint = await digestOf(fromHex(publicKey));
      const id = fingerprint.slice(0, 16);
      const signer = entry.signed_by === id ? { publicKey } : this.keys.at(-1);
      const isRight = signer && (await isSigned(entry, signature, signer.publicKey));
      must(isRight, `has a wrong signature of the key ${id}`);
      const isGiven = [publicKey, fingerprint].some((name) => this.given.includes(name));
      const isTrusted = this.given.length === 0 || isGiven || signer.isTrusted;
      this.keys.push({ id, fingerprint, publicKey, isTrusted });
    }
  }
  /** The key that signed a value; undefined if none did. */
  async signerOf({ receipt, ...signed }) {
    const key = this.keys.find(({ id }) => id === receipt?.key_id);
    if (!key || receipt.algorithm !== 'Ed25519') return undefined;
    return (await isSigned(signed, receipt.signature, key.publicKey)) ? key : undefined;
  }

  async checkStatements() {
    const { place, heads, owed, given } = this;
    const next = () => `${folder}${heads.length + 1}.json`;
    await this.read('_sluice/keys.json', canonical, this.addKeys);
    while (await this.read(next(), canonical, this.addStatement));
    const listed = place.names?.filter((name) => name.startsWith(folder)) ?? heads;
    must(listed.length <= heads.length, `${next()} is missing, but not ${listed.at(-1)}`);
    if (heads.length === 0) throw new Error('there is no statement');
    const { newest, signer: { isTrusted, fingerprint }, head = heads.at(-1) } = this;
    must(heads.includes(head), `${folder}${head.split(':')[0]}.json is missing, or not the head`);
    must(owed.size === 0, `no statement has ${[...owed.keys()][0]}, which an earlier chain had`);
    must(isTrusted, `the head is signed by ${fingerprint}, which follows from no given key`);
    this.lines.push(`Key ${fingerprint} ${given.length > 0 ? 'follows from a given key.'
      : 'is from the bucket. Who can write there could have put it there: use --key.'}`);
    this.lines.push(`Sluice listed the objects: ${canonical(newest.reconciliation)}`);
  }
  async addStatement(statement, digest) {
    const { newest, heads, keys } = this;
    const { number, begins, period, place: { prefix } } = statement;
    const signer = await this.signerOf(statement);
    must(signer, 'has no right signature by a key of keys.json');
    must(keys.indexOf(signer) >= keys.indexOf(this.signer), 'is signed by an earlier key');
    must(statement.type === 'sluice.statement.v1', 'has another type');
    must(number === heads.length + 1, 'has another number');
    const { batch_export_id: id } = newest ?? statement;
    must(statement.batch_export_id === id, 'is of another export');
    const before = newest ? { number: newest.number, sha256: heads.at(-1).split(':')[1] } : null;
    must(areSame(statement.previous, before), 'does not name the statement before');
    if (begins !== null) this.beginChain(statement);
    else must(period.start === newest.period.end, 'skips a period');
    const opening = begins !== null ? nothing : newest.balance.closing;
    const zero = () => ({ ...nothing });
    const parts = { delivered: zero(), removed: zero(), erased: zero(), closing: { ...opening } };
    this.due = period.start;
    for (const booking of statement.bookings) this.book(booking, parts);
    must(this.due === period.end, `has no interval at ${this.due}`);
    must(areSame(statement.balance, { opening, ...parts }), 'has a balance that does not add up');
    heads.push(`${number}:${digest}`);
    Object.assign(this, { newest: statement, signer, inside: prefix === '' ? '' : `${prefix}/` });
    return true;
  }
  beginChain({ number, begins, period }) {
    if (number > 1) this.lines.push(`Statement ${number} begins a chain: ${begins}`);
    for (const [start, { end, after }] of this.intervals)
      if (after.state === 'delivered') this.owed.set(`${start} to ${end}`, after.rows);
    this.intervals.clear();
    this.began = period.start;
  }
  book({ kind, start, end, before, after, note }, parts) {
    const at = `${start} to ${end}`;
    const held = this.intervals.get(start) ?? { end, after: null };
    const [old, { state, manifest, rows }] = [before ?? nothing, after];
    must(instant.test(start) && instant.test(end) && start < end, `${at} has no length`);
    must(areSame(before, held.after) && end === held.end, `${at} is not as it was`);
    // A backfill delivers intervals from before the first period: they do not tile it.
    if (before === null && end > this.began) {
      must(start === this.due, `${at} does not begin at ${this.due}`);
      this.due = end;
    }
    const isFull = full.includes(state);
    const isKind = kind === state || (isFull && full.includes(old.state));
    must(isKind && Object.hasOwn(kinds, kind), `${at} has a wrong kind`);
    must(kinds[kind].every((name) => name in note), `${at} does not say who asked`);
    const zero = { delivered: [], empty: ['rows'] }[state] ?? sums;
    const isCount = (sum) => Number.isSafeInteger(after[sum]) && after[sum] >= 0;
    must(sums.every(isCount) && zero.every((sum) => after[sum] === 0), `${at} has a wrong number`);
    must(!isFull || manifest === null || isHex(manifest.sha256, 64), `${at} has no digest`);
    const isTaken = kind === 'removed' || kind === 'erased';
    const isElsewhere = kind === 'moved' && before.place !== after.place;
    must(isTaken || isElsewhere || rows >= old.rows, `${at} loses rows`);
    for (const sum of sums) {
      const more = after[sum] - old[sum];
      parts[isTaken ? kind : 'delivered'][sum] += isTaken ? -more : more;
      parts.closing[sum] += more;
    }
    this.intervals.set(start, { end, after });
    if (!(isFull || state === 'accepted') || !this.owed.has(at)) return;
    if (state === 'accepted') this.missing += 1;
    else if (rows < this.owed.get(at)) this.fewer += 1;
    this.owed.delete(at);
  }
  /** Their starts sort as text. */
  inOrder() { return [...this.intervals].sort(); }

  async checkObjects() {
    const { since, place: { names }, newest: { place } } = this;
    const jobs = [];
    let [isListed, elsewhere, last] = [names && !since && !place.table, 0, ''];
    for (const [start, { end, after }] of this.inOrder()) {
      must(start >= last, `${start} is in two intervals: they overlap`);
      last = end;
      if (!full.includes(after.state) || end < since) continue;
      if (after.place !== place.name) elsewhere += 1;
      else if (after.manifest === null) isListed = false;
      else jobs.push([this.pathOf(after.manifest.key), { interval: [start, end], after }]);
    }
    const besides = /^(_sluice|metadata)\/|(^|\/)\.sluice-(test|owner)-[^/]*$/;
    const others = isListed ? names.filter((name) => !besides.test(name)) : [];
    const booked = new Set(jobs.map(([path]) => path));
    for (const name of others)
      if (name.endsWith('_manifest.json') && !booked.has(name)) jobs.push([name, null]);
    while (jobs.length > 0)
      await Promise.all(jobs.splice(0, 16).map((job) => this.checkManifest(...job)));
    const stray = others.find((name) => !this.named.has(name));
    must(!stray, `${stray} is in no manifest`);
    if (!isListed) this.lines.push('Objects that no manifest names were not looked for.');
    if (elsewhere) this.lines.push(`${elsewhere} intervals at other places were left out.`);
    if (this.fewer) this.lines.push(`${this.fewer} intervals had more rows in an earlier chain.`);
    if (this.missing)
      this.lines.push(`${this.missing} intervals that an earlier chain had are given up.`);
    if (this.newer) this.lines.push(`${this.newer} manifests are newer than the statements.`);
  }
  pathOf(key) {
    const isAbove = !key.startsWith(this.inside) || /(^|\/)\.{0,2}(\/|$)/.test(key);
    must(!isAbove, `${key} is not a key below the place`);
    return key.slice(this.inside.length);
  }
  async checkManifest(path, booked) {
    const add = (...found) => this.addManifest(booked, ...found);
    const files = await this.read(path, indented, add);
    must(files, `${path} is missing`);
    for (const file of files) await this.checkFile(file);
  }
  async addManifest(booked, manifest, digest, path) {
    const { data_interval_start: start, data_interval_end: end, generation, files } = manifest;
    must(manifest.batch_export_id === this.newest.batch_export_id, 'is of another export');
    must(!booked || areSame(booked.interval, [start, end]), 'is of another interval');
    if (booked?.after.manifest.sha256 === digest) {
      const total = (name) => files.reduce((sum, file) => sum + file[name], 0);
      const made = { generation, rows: total('rows'), bytes: total('bytes'), files: files.length };
      const asMade = { ...booked.after, ...made };
      must(areSame(asMade, booked.after), 'has other totals than its booking');
    } else {
      const stated = this.intervals.get(start)?.after.generation ?? -1;
      must((await this.signerOf(manifest))?.isTrusted, 'has no right receipt');
      const isNewer = generation > stated || (!booked && 'moved_to' in manifest);
      must(isNewer, 'is not newer than the statements');
      this.newer += 1;
    }
    const all = [...files.map((file) => ({ ...manifest, ...file })), ...manifest.rejected_files];
    for (const name of [path, ...all.map(({ key }) => this.pathOf(key))]) {
      must(!this.named.has(name), `names ${name}, which is named twice`);
      this.named.add(name);
    }
    return all;
  }
  async checkFile({ key, bytes, rows, sha256, format, compression }) {
    const path = this.pathOf(key);
    const found = await this.place.open(path);
    must(found, `${path} is missing`);
    must(found.size === bytes, `${path} has ${found.size} bytes instead of ${bytes}`);
    if (!this.deep) return found.body.cancel();
    const hash = (await import('node:crypto')).createHash('sha256');
    for await (const piece of found.body) hash.update(piece);
    must(hash.digest('hex') === sha256, `${path} has another SHA-256 than its manifest says`);
    if (!['JSONLines', 'CSV'].includes(format) || ![null, 'gzip'].includes(compression)) return;
    const { body } = await this.place.open(path);
    const plain = compression ? body.pipeThrough(new DecompressionStream('gzip')) : body;
    let [lines, isQuoted] = [0, false];
    for await (const piece of plain)
      for (const byte of piece) {
        if (byte === 0x22 && format === 'CSV') isQuoted = !isQuoted;
        if (byte === 0x0a && !isQuoted) lines += 1;
      }
    const isRight = lines === rows || (format === 'CSV' && lines === rows + 1);
    must(isRight, `${path} has ${lines} rows instead of ${rows}`);
  }
  /** A certificate or a record is signed, and names statements that are here. */
  async addDocument(document) {
    must((await this.signerOf(document))?.isTrusted, 'has no right signature');
    const parts = document.exports ?? document.intervals.map((one) => ({ ...document, ...one }));
    const own = parts.filter((one) => one.batch_export_id === this.newest.batch_export_id);
    const named = own.flatMap(({ statement }) => statement ?? []);
    const isHere = ({ number, sha256 }) => this.heads.includes(`${number}:${sha256}`);
    must(named.length > 0 && named.every(isHere), 'names other statements, or none');
  }
  months() {
    const columns = ['intervals', 'delivered', 'empty', 'accepted', 'open', 'rows', 'bytes'];
    const months = new Map();
    for (const [start, { after }] of this.inOrder()) {
      const [name, one] = [start.slice(0, 7), { ...after, intervals: 1, [after.state]: 1 }];
      const sums = months.get(name) ?? [];
      months.set(name, columns.map((column, at) => (sums[at] ?? 0) + (one[column] ?? 0)));
    }
    const show = (sums) => columns.map((column, at) => `${column} ${sums[at]}`).join(' ');
    return [...months].map(([name, sums]) => `${name} ${show(sums)}`);
  }
}

function ended(error) {
  const [exit, word] = error instanceof Wrong ? [1, 'WRONG'] : [2, 'NOT CHECKED'];
  return { exit, lines: [`${word}: ${(error.cause?.message ?? error.message).slice(0, 500)}`] };
}
/** A place has `names` of all objects or null, and `open(path)`: null, or the size and the body. */
export async function check(place, options = {}) {
  const job = new Check(place, options);
  const right = () => ({ exit: 0, lines: [`Right. The head is ${job.heads.at(-1)}`] });
  const { exit, lines } = await job.run().then(right, ended);
  const all = [...job.months(), ...job.lines, ...lines];
  return { exit, lines: all.map((line) => line.replace(/\p{C}/gu, '?')) };
}

const overHttp = (names, addressOf) => ({ names, open: async (path) => {
  const address = addressOf(path);
  const headers = { 'accept-encoding': 'identity' };
  const response = address && (await fetch(address, { headers }));
  if (!response || [403, 404, 410].includes(response.status)) return null;
  const size = response.headers.get('content-length');
  if (response.ok && size !== null) return { size: Number(size), body: response.body };
  throw new Error(`${path}: the store answered with ${response.status}, or with no size`);
} });
async function placeOf(text) {
  const { createReadStream, promises: files } = await import('node:fs');
  const { join, relative, sep } = await import('node:path');
  const { Readable } = await import('node:stream');
  if (/^https?:/.test(text)) {
    const [, base, query = ''] = /^(.*?)\/*(\?.*)?$/s.exec(text);
    const encoded = (path) => path.split('/').map(encodeURIComponent).join('/');
    return overHttp(null, (path) => `${base}/${encoded(path)}${query}`);
  }
  if (!(await files.stat(text)).isDirectory()) {
    const addresses = new Map(Object.entries(JSON.parse(await files.readFile(text, 'utf8'))));
    return overHttp([...addresses.keys()], (path) => addresses.get(path));
  }
  const sizes = new Map();
  for (const entry of await files.readdir(text, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath ?? entry.path, entry.name);
    sizes.set(relative(text, file).split(sep).join('/'), (await files.stat(file)).size);
  }
  const open = (path) => sizes.has(path) ? { size: sizes.get(path),
    body: Readable.toWeb(createReadStream(join(text, path))) } : null;
  return { names: [...sizes.keys()], open };
}
async function main(args) {
  const { readFile } = await import('node:fs/promises');
  const { parseArgs } = await import('node:util');
  const [one, deep] = [{ type: 'string' }, { type: 'boolean' }];
  const options = { since: one, key: { ...one, multiple: true }, head: one, document: one, deep };
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  const { key: keys, document, ...more } = values;
  if (positionals.length !== 1) throw new Error('give one folder, address or file of addresses');
  if (!/^\d{4}-\d\d-\d\d$/.test(more.since ?? '2026-11-30')) throw new Error('--since is no date');
  if (document) more.document = await readFile(document);
  return check(await placeOf(positionals[0]), { keys, ...more });
}
const program = globalThis.process?.argv?.[1];
const { realpathSync, pathToFileURL } = program
  ? { ...(await import('node:fs')), ...(await import('node:url')) } : {};
if (program && pathToFileURL(realpathSync(program)).href === import.meta.url) {
  const { exit, lines } = await main(process.argv.slice(2)).catch(ended);
  process.stdout.write(`${lines.join('\n')}\n`, () => process.exit(exit));
}
