// Checks the receipts and statements of a Sluice export, without the service: docs/receipts.md describes the bytes.
// node sluice-check.mjs FOLDER-OR-URL [--since DATE] [--key KEY]… [--head NUMBER:DIGEST] [--deep] [--urls FILE]
// [--document FILE]
// It needs Node 20, or a browser with Ed25519 in WebCrypto. It exits with 0: right, 1: wrong, 2: could not be checked.
class Wrong extends Error {}
const must = (isRight, what) => { if (!isRight) throw new Wrong(what); };
const mebibyte = 1024 ** 2, sums = ['rows', 'bytes', 'files'], full = ['delivered', 'empty'];
const later = { supplement: ['delivered'], remade: full, removed: full, erased: full, moved: full };
const statesAfter = { ...later };
for (const kind of [...full, 'open', 'not_due', 'accepted']) statesAfter[kind] = [kind];
const notes = { accepted: 'by:any reason:any', supplement: 'rows:count', removed: 'by:any request:any shown:count?',
  erased: 'request:any asked_at:instant rows:count files:list', moved: 'from:text to:text', open: 'reason:any',
  not_due: 'reason:any' };
const isHex = (value, digits) => kinds.text(value) && value.length === digits && /^[0-9a-f]*$/.test(value);
const kinds = { text: (value) => typeof value === 'string', flag: (value) => typeof value === 'boolean',
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value), list: Array.isArray,
  any: (value) => value !== undefined, count: (value) => Number.isSafeInteger(value) && value >= 0,
  number: Number.isSafeInteger, digest: (value) => isHex(value, 64), instant(value) {
    if (!kinds.text(value) || !/^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(value)) return false;
    const date = new Date(`${value.slice(0, 23)}Z`);
    return !Number.isNaN(date.getTime()) && date.toISOString().slice(0, 23) === value.slice(0, 23);
  } };
/** Requires the members of a shape such as 'rows:count place:text?'. Those with a question mark may be null. */
function mustHave(value, shape, where) {
  must(kinds.object(value), `${where} is not an object`);
  for (const [, name, kind, canBeNull] of shape.matchAll(/(\w+):(\w+)(\??)/g)) must(Object.hasOwn(value, name)
    && (kinds[kind](value[name]) || (canBeNull && value[name] === null)), `${where} has a wrong ${name}, or none`);
}
const toHex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
const fromHex = (text) => Uint8Array.from(text.match(/../g), (pair) => Number.parseInt(pair, 16));
const digestOf = async (bytes) => toHex(await crypto.subtle.digest('SHA-256', bytes));

/** RFC 8785, for values with ASCII names and whole numbers. */
function canonical(value, level = 0) {
  must(level <= 64, 'it is nested too deep');
  if (kinds.list(value)) return `[${value.map((one) => canonical(one, level + 1)).join(',')}]`;
  if (kinds.text(value)) must(value.isWellFormed(), 'a text has half a character');
  if (typeof value === 'number') must(kinds.number(value), 'a number is not whole, or too large');
  if (!kinds.object(value)) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  must(names.every((name) => /^[\0-\x7f]*$/.test(name)), 'a name is not ASCII');
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name], level + 1)}`).join(',')}}`;
}
const indented = (value) => `${JSON.stringify(value, null, 2)}\n`;
/** The object in the bytes, if they are what `write` makes of it. So no name is there twice, and no number is 1e2. */
function parse(bytes, path, write) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), value = JSON.parse(text);
    must(kinds.object(value) && canonical(value) && write(value) === text, 'the value has other bytes');
    return value;
  } catch (error) { throw new Wrong(`${path} is not JSON as Sluice writes it: ${error.message.slice(0, 60)}`); }
}
/** Keys of small order fit signatures of others. A y that is not below 2^255 - 19 is another spelling of a key. */
const badKey = new RegExp('^(0[01](00){30}[08]0|(e[c-f]|f.)(ff){30}[7f]f'
  + '|26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc[08]5'
  + '|c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03[7f]a)$');
async function isSigned(value, signature, publicKey) {
  if (!isHex(signature, 128)) return false;
  const key = await crypto.subtle.importKey('raw', fromHex(publicKey), 'Ed25519', false, ['verify']);
  return crypto.subtle.verify('Ed25519', key, fromHex(signature), new TextEncoder().encode(canonical(value)));
}

/**
 * `readObject(path, { bytes, onlySize })` gives null or `{ size, body }`, a ReadableStream. At most `bytes` of it are
 * read. `listObjects()` gives all paths, or null. Options: `since`, `keys`, `head` (`{ number, digest }`), `deep`,
 * `hasher` (makes `{ update(bytes), digest('hex') }`; without it a file is held in memory), `document` (bytes of a
 * certificate or a delivery record). It gives `{ exit, lines }`.
 */
export async function check(readObject, listObjects, options = {}) {
  const notices = [], state = { options, given: options.keys ?? [], keys: [], intervals: new Map(), chains: new Set(),
    owed: new Set(), named: new Set(), changed: 0, digests: [], erased: new Map(), notices };
  let exit = 0;
  try {
    const paths = await listObjects(), folder = /^(.*?\/)??_sluice\//;
    const places = new Set(paths?.flatMap((path) => (folder.test(path) ? [folder.exec(path)[1] ?? ''] : [])) ?? ['']);
    const [place] = places.has('') ? [''] : places;
    const isPlain = places.has('') || places.size === 1;
    if (!isPlain) throw new Error(`it has ${places.size} folders _sluice: name the place of one`);
    state.read = (path, expected) => readObject(place + path, expected);
    state.paths = paths?.filter((path) => path.startsWith(place)).map((path) => path.slice(place.length));
    await readStatements(state);
    await checkObjects(state);
    if (options.document) await checkDocument(state, options.document);
    notices.push(`Right. The head is ${state.newest.statement.number}:${state.newest.digest}`);
  } catch (error) {
    exit = error instanceof Wrong ? 1 : 2;
    notices.push(`${exit === 1 ? 'WRONG' : 'NOT CHECKED'}: ${error.message.slice(0, 500)}`);
  }
  return { exit, lines: [...monthsOf(state.intervals), ...notices].map((line) => line.replace(/\p{C}/gu, '?')) };
}
function monthsOf(intervals) {
  const months = {}, columns = ['intervals', 'delivered', 'empty', 'accepted', 'open', 'rows', 'bytes'];
  for (const [start, { after }] of intervals) {
    const name = start.slice(0, 7), month = months[name] ?? Object.fromEntries(columns.map((column) => [column, 0n]));
    months[name] = month;
    for (const one of ['intervals', after.state]) if (one in month) month[one] += 1n;
    for (const sum of ['rows', 'bytes']) month[sum] += BigInt(after[sum]);
  }
  const lineOf = (month) => [month, ...columns.map((column) => `${column} ${months[month][column]}`)].join(' ');
  return Object.keys(months).sort().map(lineOf);
}
async function eachPiece(stream, use) {
  const reader = stream.getReader();
  try { for (let next = await reader.read(); !next.done; next = await reader.read()) use(next.value); }
  finally { await reader.cancel().catch(() => {}); }
}
async function bytesOf({ read }, path, most) {
  const object = await read(path, { bytes: most }), pieces = [];
  let length = 0;
  if (object) await eachPiece(object.body, (piece) => {
    length += piece.length;
    must(length <= most, `${path} has more than ${most} bytes`);
    pieces.push(piece);
  });
  return object && new Uint8Array(await new Blob(pieces).arrayBuffer());
}

async function readKeys({ keys, given, ...state }) {
  const path = '_sluice/keys.json', bytes = await bytesOf(state, path, mebibyte);
  must(bytes, `${path} is missing`);
  const list = parse(bytes, path, canonical);
  must(list.type === 'sluice.keys.v1' && kinds.list(list.keys), `${path} is not a list of keys`);
  for (const entry of list.keys) {
    const before = keys.at(-1), where = `${path}, key ${keys.length + 1}`;
    const shape = 'key_id:text algorithm:text public_key:digest created_at:instant signed_by:text signature:text';
    mustHave(entry, shape, where);
    const { signature, ...signed } = entry, { key_id: id, public_key: publicKey, signed_by: by } = entry;
    must(entry.algorithm === 'Ed25519' && !badKey.test(publicKey), `${where} is not a safe key`);
    const fingerprint = await digestOf(fromHex(publicKey)), signer = by === id ? { id, publicKey } : before;
    must(id === fingerprint.slice(0, 16) && !keys.some((key) => key.id === id), `${where} has a wrong key_id`);
    must(by === signer?.id, `${where} is signed by neither itself nor the key before`);
    must(await isSigned(signed, signature, signer.publicKey), `${where} has a wrong signature`);
    const isGiven = given.length === 0 || given.includes(publicKey) || given.includes(fingerprint);
    const isTrusted = isGiven || signer.isTrusted === true;
    keys.push({ id, fingerprint, publicKey, isTrusted, number: keys.length });
  }
  const has = (one) => keys.some((key) => key.publicKey === one || key.fingerprint === one);
  for (const one of given) must(has(one), `${path} does not have the given key ${one}`);
}
/** The key that signed a statement or a manifest, or undefined. */
async function signerOf({ keys }, { receipt, ...signed }) {
  const key = receipt?.algorithm === 'Ed25519' ? keys.find(({ id }) => id === receipt.key_id) : undefined;
  return key && (await isSigned(signed, receipt.signature, key.publicKey)) ? key : undefined;
}

async function readStatements(state) {
  const { head } = state.options, pathOf = (number) => `_sluice/statements/${number}.json`;
  let number = 1;
  for (; ; number += 1) {
    const bytes = await bytesOf(state, pathOf(number), 64 * mebibyte);
    if (bytes === null) break;
    if (number === 1) await readKeys(state);
    const path = pathOf(number), statement = parse(bytes, path, canonical), { newest } = state;
    const signer = await signerOf(state, statement), digest = await digestOf(bytes);
    must(signer, `${path} has no right signature`);
    must(!newest || signer.number >= newest.signer.number, `${path} is signed by an earlier key`);
    must(statement.type === 'sluice.statement.v1' && statement.number === number, `${path} has another type or number`);
    addStatement(state, statement, path);
    must(head?.number !== number || head.digest === digest, `${path} is not the given head`);
    state.newest = { statement, signer, digest };
    state.digests[number] = digest;
  }
  const numbers = state.paths?.map((path) => /^_sluice\/statements\/([1-9]\d*)\.json$/.exec(path)?.[1] ?? 0) ?? [];
  for (let next = number + 1; !state.paths && next <= number + 16; next += 1)
    if (await state.read(pathOf(next), { bytes: 1, onlySize: true })) numbers.push(next);
  must(!numbers.some((one) => BigInt(one) > number), `${pathOf(number)} is missing, and there is a later one`);
  if (number === 1) throw new Error('there is no statement');
  must(!head || head.number < number, `${pathOf(number)} is missing: the given head is ${head?.number}`);
  must(state.owed.size === 0, `${[...state.owed][0]} was delivered in an earlier chain, and is not in the newest`);
  state.notices.push(`Statement ${number - 1} is ${state.looked}.`);
  const { isTrusted, fingerprint } = state.newest.signer;
  must(isTrusted, `${pathOf(number - 1)} is signed by ${fingerprint}, which does not follow from a given key`);
  state.notices.push(state.given.length ? `Key ${fingerprint} is given, or follows from a given key.`
    : `Key ${fingerprint} is from the bucket. Who can write there could have put it there: compare it, or use --key.`);
}
const statementShape = `batch_export_id:text chain:text previous:object? begins:object? made_at:instant era:text
  place:object period:object schedule:object source:object definition:object bookings:list balance:object
  reconciliation:object acknowledged:object? receipt:object`;
function addStatement(state, statement, path) {
  mustHave(statement, statementShape, path);
  const { chain, begins, previous, period, balance } = statement, { newest, intervals } = state;
  mustHave(period, 'start:instant end:instant', `${path}: period`);
  mustHave(statement.place, 'type:text bucket:text? prefix:text', `${path}: place`);
  must(!newest || newest.statement.batch_export_id === statement.batch_export_id, `${path} is of another export`);
  if (begins === null) {
    must(newest && chain === newest.statement.chain && previous?.number === newest.statement.number
      && previous.sha256 === newest.digest, `${path} does not continue the statement before`);
    must(period.start === newest.statement.period.end, `${path} does not begin where the period before ends`);
  } else {
    must(previous === null && !state.chains.has(chain) && begins.last_number === statement.number - 1
      && begins.last_sha256 === (newest?.digest ?? null) && (newest ? begins.reason !== 'first' : true)
      && ['first', 'restored', 'replaced'].includes(begins.reason), `${path} does not begin a chain as it should`);
    if (newest) state.notices.push(`Statement ${statement.number} begins a new chain: ${begins.reason}`);
    for (const [start, { end, after }] of intervals)
      if (after.state === 'delivered') state.owed.add(`${start} to ${end}`);
    intervals.clear();
    state.chains.add(chain);
    Object.assign(state, { chainStart: period.start, backfilled: [] });
  }
  const looked = statement.reconciliation;
  mustHave(looked, 'state:text at:instant? reason:text? missing:list changed:list stray:list more:count',
    `${path}: reconciliation`);
  const found = ['missing', 'changed', 'stray'].reduce((sum, name) => sum + looked[name].length, looked.more);
  must(looked.state === 'listed' ? looked.reason === null && looked.at : looked.state === 'not_listed'
    && looked.reason !== null && looked.at === null && found === 0, `${path} has a wrong reconciliation`);
  state.looked = looked.state !== 'listed' ? `not reconciled: ${looked.reason}`
    : `reconciled${looked.part ? ' in part' : ''}${found ? `, and ${found} objects were missing, changed or in no manifest` : ''}`;
  const run = { due: period.start, at: '', parts: {} };
  for (const part of ['delivered', 'removed', 'erased']) run.parts[part] = { rows: 0n, bytes: 0n, files: 0n };
  for (const [index, booking] of statement.bookings.entries())
    addBooking(state, booking, run, `${path}, booking ${index + 1},`);
  // Backfills deliver intervals from before the first period of the chain. They tile nothing, and must not overlap.
  state.backfilled.sort(([one], [other]) => (one < other ? -1 : 1));
  const overlap = state.backfilled.find(([start], index) => index > 0 && start < state.backfilled[index - 1][1]);
  must(overlap === undefined, `${path} has intervals that overlap at ${overlap?.[0]}`);
  must(run.due === period.end, `${path} has no interval from ${run.due} to ${period.end}`);
  for (const part of ['opening', ...Object.keys(run.parts), 'closing'])
    mustHave(balance[part], 'rows:number bytes:number files:number', `${path}: balance: ${part}`);
  for (const sum of sums) {
    const opening = begins ? 0n : BigInt(newest.statement.balance.closing[sum]);
    const { delivered, removed, erased } = run.parts;
    const right = { opening, delivered: delivered[sum], removed: removed[sum], erased: erased[sum],
      closing: opening + delivered[sum] - removed[sum] - erased[sum] };
    for (const part in right)
      must(BigInt(balance[part][sum]) === right[part], `${path}: ${sum} ${part} are ${right[part]}`);
  }
}
function addBooking({ intervals, owed, chainStart, backfilled, erased }, booking, run, where) {
  mustHave(booking, 'kind:text start:instant end:instant at:instant before:object? after:object note:object?', where);
  const { kind, start, end, at, before, after, note } = booking, held = intervals.get(start);
  const isBackfilled = before === null && end <= chainStart;
  const follows = before ? held?.end === end && canonical(before) === held.text && at >= run.at
    : !held && start < end && (isBackfilled || start === run.due);
  must(follows, `${where} does not fit what was booked before`);
  if (before) run.at = at;
  else if (isBackfilled) backfilled.push([start, end]);
  else run.due = end;
  mustHave(after, 'state:text rows:count bytes:count files:count', where);
  const states = Object.hasOwn(statesAfter, kind) ? statesAfter[kind] : [];
  must(states.includes(after.state), `${where} has a wrong kind, or a wrong state`);
  must(!(kind in later) || full.includes(before?.state), `${where} changes an interval that was not delivered`);
  if (full.includes(after.state)) {
    mustHave(after, 'place:text manifest:object? generation:count key_digest:text? settled:flag pending:list', where);
    if (after.manifest) mustHave(after.manifest, 'key:text sha256:digest', where);
  }
  must(after.state === 'delivered' || after.rows === 0, `${where} has rows`);
  must(full.includes(after.state) || (after.bytes === 0 && after.files === 0), `${where} has bytes or files`);
  const needsNote = note !== null || !(kind in { delivered: 1, empty: 1, remade: 1, open: 1, not_due: 1 });
  if (needsNote) mustHave(note, notes[kind] ?? 'nothing:any', `${where} note`);
  const change = (sum) => BigInt(after[sum]) - BigInt(before?.[sum] ?? 0);
  const isCut = kind === 'removed' || kind === 'erased';
  must(isCut || kind === 'moved' || change('rows') >= 0n, `${where} takes rows away`);
  must(kind !== 'supplement' || BigInt(note.rows) === change('rows'), `${where} adds other rows than its note says`);
  must(kind !== 'erased' || BigInt(note.rows) === -change('rows'), `${where} erases other rows than its note says`);
  must(kind !== 'moved' || (note.from === before.place && note.to === after.place), `${where} moves elsewhere`);
  if (kind === 'erased') erased.set(note.request, (erased.get(note.request) ?? 0) + note.rows);
  for (const sum of sums) run.parts[isCut ? kind : 'delivered'][sum] += isCut ? -change(sum) : change(sum);
  intervals.set(start, { end, after, text: canonical(after) });
  if (after.state === 'delivered') owed.delete(`${start} to ${end}`);
}

/** A certificate or a delivery record is signed, and names statements that are here. */
async function checkDocument(state, given) {
  const bytes = given.at(-1) === 0x0a ? given.subarray(0, -1) : given;
  const where = 'the document', document = parse(bytes, where, canonical), newest = state.newest.statement;
  must(/^sluice\.(erasure|delivery)\.v1$/.test(document.type), `${where} is neither a certificate nor a record`);
  must((await signerOf(state, document))?.isTrusted, `${where} has no right signature`);
  const isErasure = document.type === 'sluice.erasure.v1', id = newest.batch_export_id;
  const parts = isErasure ? document.intervals : document.exports;
  must(kinds.list(parts) && parts.every(kinds.object), `${where} has no list`);
  const own = isErasure ? parts : parts.filter((part) => part.batch_export_id === id && part.statement !== null);
  must((isErasure ? document.batch_export_id === id : own.length === 1), `${where} is of another export`);
  for (const { statement } of own)
    must(kinds.object(statement) && kinds.count(statement.number) && kinds.digest(statement.sha256)
      && state.digests[statement.number] === statement.sha256,
      `${where} names a statement that is not here`);
  if (isErasure) must(kinds.text(document.request) && state.erased.has(document.request)
    && state.erased.get(document.request) === document.rows,
    `${where} has other rows than the statements have erased`);
  const what = isErasure ? `${document.rows} rows were erased` : `the record of ${document.month}`;
  state.notices.push(`The document is right: ${what}.`);
}
async function checkObjects(state) {
  const { type, bucket, prefix } = state.newest.statement.place, { since = '' } = state.options;
  const elsewhere = {}, open = [], jobs = [];
  const place = `${type.toLowerCase()}://${[bucket, prefix].filter(Boolean).join('/')}`;
  state.pathOf = (key) => {
    const inside = prefix === '' ? '' : `${prefix}/`, parts = key.split('/');
    must(key.startsWith(inside) && !/[\0\\]/.test(key) && !parts.some((part) => ['', '.', '..'].includes(part)),
      `${key} is not a key below ${place}`);
    return key.slice(inside.length);
  };
  let lists = since === '' && state.paths;
  for (const [start, { end, after }] of state.intervals) {
    if (after.state === 'open') open.push(`${start} to ${end}`);
    if (!full.includes(after.state) || end < since) continue;
    if (after.place !== place) elsewhere[after.place] = (elsewhere[after.place] ?? 0) + 1;
    else if (after.manifest)
      jobs.push(() => checkManifest(state, state.pathOf(after.manifest.key), { start, end, ...after }));
    else lists = null;
  }
  for (let at = 0; at < jobs.length; at += 16) {
    const results = await Promise.allSettled(jobs.slice(at, at + 16).map((job) => job()));
    for (const { reason } of results) if (reason) throw reason;
  }
  if (lists) await checkStrays(state, lists);
  if (open.length > 5) open.splice(5, Number.POSITIVE_INFINITY, `… (${open.length} in all)`);
  if (open.length) state.notices.push(`Open: ${open.join(', ')}`);
  for (const one in elsewhere) state.notices.push(`${elsewhere[one]} intervals are at ${one}, and were not looked at`);
  if (state.changed) state.notices.push(`${state.changed} manifests were signed after the newest statement`);
  if (!lists) state.notices.push('Objects that no manifest names were not looked for.');
}
async function checkManifest(state, path, booked) {
  const bytes = await bytesOf(state, path, 16 * mebibyte), { statement } = state.newest;
  must(bytes, `${path} is missing`);
  const manifest = parse(bytes, path, indented), isBooked = booked?.manifest.sha256 === (await digestOf(bytes));
  mustHave(manifest, `batch_export_id:text data_interval_start:instant data_interval_end:instant generation:count
    total_rows:count total_bytes:count rejected_rows:count files:list rejected_files:list`, path);
  if (!isBooked) {
    must((await signerOf(state, manifest))?.isTrusted, `${path} is not what statements say, and has no right receipt`);
    const held = state.intervals.get(manifest.data_interval_start);
    const isMoved = manifest.moved_to !== undefined && !booked;
    const isNewer = held ? manifest.generation > (held.after.generation ?? -1)
      : manifest.data_interval_start >= statement.period.end || manifest.data_interval_end <= state.chainStart;
    must(isNewer || isMoved, `${path} is not in a statement, and not newer than they are`);
    state.changed += 1;
  }
  const { data_interval_start: start, data_interval_end: end, files, rejected_files: rejected } = manifest;
  must(manifest.batch_export_id === statement.batch_export_id, `${path} is of another export`);
  must(!booked || (start === booked.start && end === booked.end), `${path} is of another interval`);
  for (const file of [...files, ...rejected])
    mustHave(file, 'key:text rows:count bytes:count sha256:digest', `${path}: a file`);
  const sumOf = (list, name) => list.reduce((sum, file) => sum + file[name], 0);
  must(manifest.total_rows === sumOf(files, 'rows') && manifest.total_bytes === sumOf(files, 'bytes')
    && manifest.rejected_rows === sumOf(rejected, 'rows'), `${path} has wrong totals`);
  must(!isBooked || (manifest.generation === booked.generation && manifest.total_rows === booked.rows
    && manifest.total_bytes === booked.bytes && files.length === booked.files),
    `${path} has other totals than its booking`);
  for (const name of [path, ...[...files, ...rejected].map((file) => state.pathOf(file.key))]) {
    must(!state.named.has(name), `${name} is named twice`);
    state.named.add(name);
  }
  for (const file of files) await checkFile(state, file, manifest.format, manifest.compression);
  for (const file of rejected) await checkFile(state, file, 'JSONLines', null);
}
async function checkFile(state, { key, bytes, rows, sha256 }, format, compression) {
  const path = state.pathOf(key), { deep, hasher } = state.options;
  const get = (onlySize) => state.read(path, { bytes, onlySize }), object = await get(!deep);
  const isText = ['JSONLines', 'CSV'].includes(format) && [null, 'gzip'].includes(compression);
  must(object, `${path} is missing`);
  must(object.size === null || object.size === bytes, `${path} has ${object.size} bytes instead of ${bytes}`);
  if (!deep) return;
  const pieces = [], hash = hasher?.() ?? { update: (piece) => pieces.push(piece), digest: async () =>
    digestOf(await new Blob(pieces).arrayBuffer()) };
  let length = 0, lines = 0, isQuoted = false;
  await eachPiece(object.body, (piece) => {
    length += piece.length;
    must(length <= bytes, `${path} has more than ${bytes} bytes`);
    hash.update(piece);
  });
  must((await hash.digest('hex')) === sha256, `${path} has another SHA-256 than its manifest says`);
  if (!isText) return;
  const { body } = await get(false);
  await eachPiece(compression ? body.pipeThrough(new DecompressionStream('gzip')) : body, (piece) => {
    for (const byte of piece) {
      if (byte === 0x22 && format === 'CSV') isQuoted = !isQuoted;
      if (byte === 0x0a && !isQuoted) lines += 1;
    }
  }).catch((error) => { throw new Wrong(`${path} cannot be unpacked: ${error.message}`); });
  must(lines === rows || (format === 'CSV' && lines === rows + 1), `${path} has ${lines} rows instead of ${rows}`);
}
async function checkStrays(state, paths) {
  const besides = /^(_sluice|metadata)\/|(^|\/)\.sluice-(test|owner)-[^/]*$/;
  const isOurs = (path) => state.named.has(path) || besides.test(path);
  for (const path of paths)
    if (path.endsWith('_manifest.json') && !isOurs(path)) await checkManifest(state, path, null);
  const strays = paths.filter((path) => !isOurs(path));
  must(strays.length === 0 || state.newest.statement.place.table === 'iceberg', `${strays[0]} is in no manifest`);
  if (strays.length)
    state.notices.push(`${strays.length} objects are in no manifest: snapshots of the table may need them.`);
}

function overHttp(addressOf, seconds) {
  return async (path, { onlySize }) => {
    const address = addressOf(path), range = onlySize ? { range: 'bytes=0-0' } : {};
    const headers = { 'accept-encoding': 'identity', ...range };
    if (address === undefined) return null;
    if (!/^https?:\/\//.test(address)) throw new Error(`the address of ${path} is not http or https`);
    const control = new AbortController(), began = Date.now();
    let received = 0;
    const watch = setInterval(() => {
      if (Date.now() - began <= seconds * 1000 + received / 100) return;
      clearInterval(watch);
      control.abort(new Error(`${path}: the store takes too long`));
    }, 250);
    const end = () => clearInterval(watch);
    const response = await fetch(address, { headers, redirect: 'manual', signal: control.signal }).catch((error) => {
      end();
      throw new Error(`${path}: ${error.cause?.message ?? error.message}`);
    });
    if (onlySize || response.status !== 200) end();
    if (![200, 206].includes(response.status)) await response.body?.cancel();
    if ([403, 404, 410].includes(response.status)) return null;
    const { status } = response;
    if (![200, 206, 416].includes(status)) throw new Error(`${path}: the store answered with ${status}`);
    const size = response.headers.get(status === 200 ? 'content-length' : 'content-range')?.split('/').at(-1);
    if (onlySize) await response.body?.cancel();
    const count = new TransformStream({ flush: end, transform(piece, out) {
      received += piece.length;
      out.enqueue(piece);
    } });
    return { size: size ? Number(size) : null, body: onlySize ? null : response.body.pipeThrough(count) };
  };
}
async function main(args) {
  const [{ createReadStream }, { lstat, readdir, readFile, realpath }, { join }, { Readable }, { createHash },
    { parseArgs }] = await Promise.all([import('node:fs'), import('node:fs/promises'), import('node:path'),
      import('node:stream'), import('node:crypto'), import('node:util')]);
  const text = { type: 'string' }, { values, positionals } = parseArgs({ args, allowPositionals: true, options: {
    since: text, key: { ...text, multiple: true }, head: text, deep: { type: 'boolean' }, urls: text,
    timeout: text, document: text } });
  const { since = '', key = [], head, deep = false, urls, timeout = '60' } = values;
  const [, number, digest] = /^([1-9]\d{0,14}):([0-9a-f]{64})$/.exec(head ?? '') ?? [];
  const refuse = (isWrong, what) => { if (isWrong) throw new Error(what); };
  refuse(positionals.length !== (urls ? 0 : 1), 'give one folder or address, or --urls');
  refuse(since && !kinds.instant(`${since}T00:00:00.000000Z`), '--since is not a date: write 2026-11-30');
  refuse(head !== undefined && !number, '--head is not a number, a colon and a digest of 64 digits');
  refuse(!key.every((one) => kinds.digest(one)), '--key is not a public key or a fingerprint: 64 digits in lower case');
  refuse(!/^[1-9]\d{0,5}$/.test(timeout), '--timeout is not a number of seconds');
  const options = { since, keys: key, deep, hasher: () => createHash('sha256') };
  if (number) options.head = { number: Number(number), digest };
  if (values.document) options.document = await readFile(values.document);
  if (urls) {
    const map = new Map(Object.entries(JSON.parse(await readFile(urls, 'utf8'))));
    return check(overHttp((path) => map.get(path), Number(timeout)), () => [...map.keys()], options);
  }
  if (/^https?:\/\//.test(positionals[0])) {
    const [base, query] = positionals[0].split(/\/*(?:\?(.*))?$/s), end = query === undefined ? '' : `?${query}`;
    const addressOf = (path) => `${base}/${path.split('/').map(encodeURIComponent).join('/')}${end}`;
    return check(overHttp(addressOf, Number(timeout)), () => null, options);
  }
  const top = await realpath(positionals[0]);
  const read = async (path, { onlySize }) => {
    let info, at = top;
    for (const part of path.split('/')) {
      at = join(at, part);
      info = await lstat(at).catch((error) => {
        if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes(error.code)) return null;
        throw error;
      });
      if (info === null) return null;
      must(!info.isSymbolicLink(), `${path} is a link, or below one`);
    }
    must(info.isFile(), `${path} is not a file`);
    return { size: info.size, body: onlySize ? null : Readable.toWeb(createReadStream(at)) };
  };
  const list = async (folder = '') => {
    const entries = await readdir(join(top, folder), { withFileTypes: true });
    const listOf = ({ name }, isFolder) => (isFolder ? list(`${folder}${name}/`) : [`${folder}${name}`]);
    return (await Promise.all(entries.map((entry) => listOf(entry, entry.isDirectory())))).flat();
  };
  return check(read, list, options);
}
if (globalThis.process?.argv?.[1]) {
  const [{ realpathSync }, { pathToFileURL }] = await Promise.all([import('node:fs'), import('node:url')]);
  if (pathToFileURL(realpathSync(process.argv[1])).href === import.meta.url) {
    const failed = ({ message }) => ({ exit: 2, lines: [`NOT CHECKED: ${message}`] });
    const { exit, lines } = await main(process.argv.slice(2)).catch(failed);
    process.stdout.write(`${lines.join('\n')}\n`, () => process.exit(exit));
  }
}
