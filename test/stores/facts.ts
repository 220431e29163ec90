import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Subject } from '../conformance/s3-protocol-subject.ts';
import {
  abort,
  bare,
  begin,
  bodyForm,
  byId,
  complete,
  completeOver,
  crc32Of,
  element,
  elements,
  type Facts,
  fiveMiB,
  formOf,
  put,
  race,
  replace,
  said,
  sendPart,
  succeeded,
  tagOf,
  uploadOne,
  wrongTag,
} from './facts/asking.ts';

/** Checksums, listings and errors. */
const objectFacts: Facts = {
  'PUT, x-amz-checksum-crc32 right / wrong': async (s) => {
    const right = { 'x-amz-checksum-crc32': crc32Of(Buffer.from('bytes')) };
    const wrong = { 'x-amz-checksum-crc32': crc32Of(Buffer.from('others')) };
    const taken = await put(s, 'facts/crc/put', 'bytes', right);
    const refused = await put(s, 'facts/crc/put', 'bytes', wrong);
    const echoed = taken.headers['x-amz-checksum-crc32'] ? ', echoed' : '';
    return `${said(taken)}${echoed} / ${said(refused)}`;
  },
  'Create with x-amz-checksum-algorithm: CRC32': async (s) => {
    const { id, answer } = await begin(s, 'facts/crc/create', {
      'x-amz-checksum-algorithm': 'CRC32',
    });
    if (id !== '') await abort(s, 'facts/crc/create', id);
    const echoed = answer.headers['x-amz-checksum-algorithm'] === 'CRC32';
    return `${said(answer)}, ${echoed ? 'echoed' : 'not echoed'}`;
  },
  'UploadPart, x-amz-checksum-crc32 right / wrong': async (s) => {
    const key = 'facts/crc/part';
    const { id } = await begin(s, key, { 'x-amz-checksum-algorithm': 'CRC32' });
    const right = await sendPart(s, key, id, 1, 'bytes', {
      'x-amz-checksum-crc32': crc32Of(Buffer.from('bytes')),
    });
    const wrong = await sendPart(s, key, id, 2, 'bytes', {
      'x-amz-checksum-crc32': crc32Of(Buffer.from('others')),
    });
    await abort(s, key, id);
    return `${said(right)} / ${said(wrong)}`;
  },
  'Complete whose parts name a ChecksumCRC32': async (s) => {
    const key = 'facts/crc/complete';
    const { id } = await begin(s, key, { 'x-amz-checksum-algorithm': 'CRC32' });
    const sum = crc32Of(Buffer.from('bytes'));
    const part = await sendPart(s, key, id, 1, 'bytes', { 'x-amz-checksum-crc32': sum });
    const answer = await complete(s, key, id, [{ tag: tagOf(part), crc32: sum }]);
    const found = await s.raw({ method: 'HEAD', key });
    const bytes = found.status === 200 ? `, ${found.headers['content-length']} of 5 bytes` : '';
    if (found.status !== 200) await abort(s, key, id);
    return `${said(answer)}${bytes}`;
  },
  'Body that does not match x-amz-content-sha256: PUT / UploadPart': async (s) => {
    const payloadHash = createHash('sha256').update('others').digest('hex');
    const key = 'facts/sha256';
    const whole = await s.raw({ method: 'PUT', key, body: 'bytes', payloadHash });
    const { id } = await begin(s, key);
    const query: [string, string][] = [['partNumber', '1'], ...byId(id)];
    const part = await s.raw({ method: 'PUT', key, query, body: 'bytes', payloadHash });
    await abort(s, key, id);
    return `${said(whole)} / ${said(part)}`;
  },
  'Wrong Content-MD5: PUT / UploadPart': async (s) => {
    const headers = { 'content-md5': createHash('md5').update('others').digest('base64') };
    const whole = await put(s, 'facts/md5', 'bytes', headers);
    const { id } = await begin(s, 'facts/md5');
    const part = await sendPart(s, 'facts/md5', id, 1, 'bytes', headers);
    await abort(s, 'facts/md5', id);
    return `${said(whole)} / ${said(part)}`;
  },
  'HEAD of a missing object / of a missing bucket': async (s) => {
    const key = await s.raw({ method: 'HEAD', key: 'facts/missing' });
    const bucket = await s.raw({ method: 'HEAD', path: '/no-such-bucket-at-all/key' });
    return `${key.status}, ${bodyForm(key)} / ${bucket.status}, ${bodyForm(bucket)}`;
  },
  'GET of a missing object / of a missing bucket': async (s) => {
    const key = await s.raw({ key: 'facts/missing' });
    return `${said(key)} / ${said(await s.raw({ path: '/no-such-bucket-at-all/key' }))}`;
  },
  'DELETE of a missing object': async (s) =>
    said(await s.raw({ method: 'DELETE', key: 'facts/missing' })),
  'Wrong secret / unknown access key': async (s) => {
    const { accessKeyId, secretAccessKey } = s.credentials;
    const ask = (credentials: Subject['credentials']) => s.raw({ key: 'facts/x', credentials });
    const secret = await ask({ accessKeyId, secretAccessKey: `${secretAccessKey}x` });
    const key = await ask({ accessKeyId: 'AKIAUNKNOWN000000000', secretAccessKey });
    return `${said(secret)} / ${said(key)}`;
  },
  'Body of a 404 / of a 412 on a PUT': async (s) => {
    await put(s, 'facts/bodies', 'x');
    const missing = await s.raw({ key: 'facts/missing' });
    const refused = await put(s, 'facts/bodies', 'y', { 'if-none-match': '*' });
    const form = refused.status === 412 ? bodyForm(refused) : `not refused (${refused.status})`;
    return `${bodyForm(missing)} / ${form}`;
  },
  'Keys with odd characters, put and listed': async (s) => {
    const prefix = 'facts/odd/';
    const names = ['a b', 'ü€😀', 'a+b', '100%', 'a%20b', 'a=b&c', "(it's)*!", 'a:b,c;d@e', '~_'];
    const bad: string[] = [];
    for (const name of names) {
      const answer = await put(s, `${prefix}${name}`, name);
      const read = await s.raw({ key: `${prefix}${name}` });
      if (read.text !== name) bad.push(`${name} (${said(answer)})`);
    }
    const query: [string, string][] = [
      ['list-type', '2'],
      ['prefix', prefix],
      ['encoding-type', 'url'],
    ];
    const { text } = await s.raw({ query });
    const keys = elements(text, 'Key');
    const decoded = keys.map((key) => decodeURIComponent(key.replaceAll('+', ' ')));
    const listed = names.every((name) => decoded.includes(`${prefix}${name}`));
    return `${bad.length === 0 ? 'all kept' : `not kept: ${bad.join(' ')}`}, ${listed ? 'listed' : `listed otherwise: ${keys.join(' ')}`}`;
  },
  'Listing at once after a PUT / after a DELETE': async (s) => {
    const query: [string, string][] = [
      ['list-type', '2'],
      ['prefix', 'facts/fresh/'],
    ];
    let shown = 0;
    let hidden = 0;
    for (let i = 0; i < 10; i += 1) {
      const key = `facts/fresh/${i}`;
      await put(s, key, 'x');
      if ((await s.raw({ query })).text.includes(`<Key>${key}<`)) shown += 1;
      await s.raw({ method: 'DELETE', key });
      if (!(await s.raw({ query })).text.includes(`<Key>${key}<`)) hidden += 1;
    }
    return `${shown} of 10 shown / ${hidden} of 10 gone`;
  },
};

const multipartFacts: Facts = {
  ListParts: async (s) => {
    const key = 'facts/list parts';
    const { id } = await begin(s, key);
    const sent = tagOf(await sendPart(s, key, id, 1, fiveMiB));
    await sendPart(s, key, id, 2, 'end');
    const answer = await s.raw({ key, query: [...byId(id), ['max-parts', '1']] });
    const listed = element(answer.text, 'ETag');
    const size = element(answer.text, 'Size') === `${fiveMiB.length}` ? 'size' : 'wrong size';
    const next = element(answer.text, 'NextPartNumberMarker');
    const rest = await s.raw({ key, query: [...byId(id), ['part-number-marker', next ?? '0']] });
    const pages = element(rest.text, 'PartNumber') === '2' ? 'pages' : 'no pages';
    await abort(s, key, id);
    const form = listed === sent ? 'tag as sent' : `tag ${formOf(listed)}`;
    return `${said(answer)}, ${form}, ${size}, ${pages}`;
  },
  'ListParts of an unknown upload': async (s) =>
    said(await s.raw({ key: 'facts/unknown', query: byId('unknown') })),
  ListMultipartUploads: async (s) => {
    const keys = ['facts/uploads/a', 'facts/uploads/b c', 'facts/uploadz'];
    const begun = await Promise.all(keys.map((key) => begin(s, key)));
    const list = (more: [string, string][]) =>
      s.raw({ query: [['uploads', ''], ['prefix', 'facts/uploads/'], ...more] });
    const all = await list([]);
    const found = elements(all.text, 'Key');
    const first = await list([['max-uploads', '1']]);
    const second = await list([
      ['key-marker', element(first.text, 'NextKeyMarker') ?? ''],
      ['upload-id-marker', element(first.text, 'NextUploadIdMarker') ?? ''],
    ]);
    const initiated = element(all.text, 'Initiated') === undefined ? 'no time' : 'time';
    const pages = second.text.includes(begun[1]?.id ?? '?') ? 'pages' : 'no pages';
    await Promise.all(keys.map((key, i) => abort(s, key, begun[i]?.id ?? '')));
    const prefix = found.join() === keys.slice(0, 2).join() ? 'by prefix' : `[${found.join()}]`;
    return `${said(all)}, ${prefix}, ${initiated}, ${pages}`;
  },
  'Abort of an unknown upload / of one aborted before': async (s) => {
    const key = 'facts/abort';
    const unknown = await abort(s, key, 'unknown');
    const { id } = await begin(s, key);
    await abort(s, key, id);
    return `${said(unknown)} / ${said(await abort(s, key, id))}`;
  },
  'After an abort: ListParts / UploadPart / Complete': async (s) => {
    const key = 'facts/after abort';
    const { id, parts } = await uploadOne(s, key, 'bytes');
    await abort(s, key, id);
    const answers = [
      await s.raw({ key, query: byId(id) }),
      await sendPart(s, key, id, 1, 'bytes'),
      await complete(s, key, id, parts),
    ];
    return answers.map(said).join(' / ');
  },
  'Complete sent again / abort after it / ListParts after it': async (s) => {
    const key = 'facts/again';
    const { id, parts } = await uploadOne(s, key, 'bytes');
    await complete(s, key, id, parts);
    const answers = [
      await complete(s, key, id, parts),
      await abort(s, key, id),
      await s.raw({ key, query: byId(id) }),
    ];
    const there = (await s.raw({ key })).text === 'bytes' ? '' : ', object gone';
    return `${answers.map(said).join(' / ')}${there}`;
  },
  'UploadPart with other bytes after Complete': async (s) => {
    const key = 'facts/late part';
    const { id, parts } = await uploadOne(s, key, 'bytes');
    await complete(s, key, id, parts);
    const answer = await sendPart(s, key, id, 1, 'others');
    return `${said(answer)}, then GET ${said(await s.raw({ key }))}`;
  },
  'Complete and abort at once, up to fifty times': async (s) => {
    for (let round = 0; round < 50; round += 1) {
      const key = `facts/complete or abort ${round}`;
      const { id, parts } = await uploadOne(s, key, 'bytes');
      const answers = await Promise.all([complete(s, key, id, parts), abort(s, key, id)]);
      if (answers.every(succeeded)) return `both succeed, then GET ${said(await s.raw({ key }))}`;
    }
    return 'one succeeds';
  },
  'Complete whose parts have another tag / no quotes': async (s) => {
    const key = 'facts/part tags';
    const { id, parts } = await uploadOne(s, key, 'bytes');
    const wrong = await complete(s, key, id, [{ tag: `"${wrongTag}"` }]);
    const plain = await complete(s, key, id, [{ tag: bare(parts[0]?.tag ?? '') }]);
    return `${said(wrong)} / ${said(plain)}`;
  },
  'Upload whose one part has no byte': async (s) => {
    const key = 'facts/empty';
    const { id } = await begin(s, key);
    const part = await sendPart(s, key, id, 1, '');
    const answer = await complete(s, key, id, [{ tag: tagOf(part) }]);
    const found = await s.raw({ method: 'HEAD', key });
    return `${said(part)}, ${said(answer)}, HEAD ${found.status} ${found.headers['content-length'] ?? ''}`;
  },
  'x-amz-meta of the create, on the object': async (s) => {
    const key = 'facts/meta';
    const { id } = await begin(s, key, { 'x-amz-meta-sluice-upload': 'mark' });
    const part = await sendPart(s, key, id, 1, 'bytes');
    await complete(s, key, id, [{ tag: tagOf(part) }]);
    const { headers } = await s.raw({ method: 'HEAD', key });
    return headers['x-amz-meta-sluice-upload'] === 'mark' ? 'kept' : 'lost';
  },
  'Tag of an object: PUT / multipart: Complete, HEAD, list': async (s) => {
    const key = 'facts/tags/multipart';
    const whole = await put(s, 'facts/tags-put', 'bytes');
    const { id, parts } = await uploadOne(s, key, 'bytes');
    const completed = element((await complete(s, key, id, parts)).text, 'ETag');
    const head = tagOf(await s.raw({ method: 'HEAD', key }));
    const query: [string, string][] = [
      ['list-type', '2'],
      ['prefix', 'facts/tags/'],
    ];
    const listed = element((await s.raw({ query })).text, 'ETag');
    const same = new Set([completed, head, listed].map((tag) => bare(tag ?? ''))).size === 1;
    const forms = [completed, head, listed].map(formOf).join(', ');
    return `${formOf(tagOf(whole))} / ${forms}${same ? '' : ' (not the same)'}`;
  },
};

const conditionFacts: Facts = {
  'PUT, If-None-Match: *, nothing there': async (s) =>
    said(await put(s, 'facts/none/new', 'first', { 'if-none-match': '*' })),
  'PUT, If-None-Match: *, object there': (s) =>
    replace(s, 'facts/none/there', () => ({ 'if-none-match': '*' })),
  'PUT, If-None-Match: *, eight at once': (s) =>
    race((i) => put(s, 'facts/none/race', `writer ${i}`, { 'if-none-match': '*' })),
  'PUT, If-Match: "right tag"': (s) =>
    replace(s, 'facts/match/q-right', (tag) => ({ 'if-match': `"${bare(tag)}"` })),
  'PUT, If-Match: right tag, no quotes': (s) =>
    replace(s, 'facts/match/u-right', (tag) => ({ 'if-match': bare(tag) })),
  'PUT, If-Match: "wrong tag"': (s) =>
    replace(s, 'facts/match/q-wrong', () => ({ 'if-match': `"${wrongTag}"` })),
  'PUT, If-Match: wrong tag, no quotes': (s) =>
    replace(s, 'facts/match/u-wrong', () => ({ 'if-match': wrongTag })),
  'PUT, If-Match: tag, nothing there': async (s) => {
    const answers = [`"${wrongTag}"`, wrongTag].map(async (tag, i) =>
      said(await put(s, `facts/match/nothing-${i}`, 'x', { 'if-match': tag })),
    );
    return (await Promise.all(answers)).join(' / no quotes: ');
  },
  'PUT, If-Match: right tag in the form it takes, eight at once': async (s) => {
    const key = 'facts/match/race';
    const tag = tagOf(await put(s, key, 'first'));
    // One that is refused in quotes is tried without, and stays the right one all the while.
    const form = (await put(s, key, 'first', { 'if-match': tag })).status < 300 ? tag : bare(tag);
    return await race((i) => put(s, key, `writer ${i}`, { 'if-match': form }));
  },
  'GET, If-Match: "right tag" / no quotes': async (s) => {
    const tag = bare(tagOf(await put(s, 'facts/get-match', 'x')));
    const quoted = await s.raw({ key: 'facts/get-match', headers: { 'if-match': `"${tag}"` } });
    const plain = await s.raw({ key: 'facts/get-match', headers: { 'if-match': tag } });
    return `${said(quoted)} / ${said(plain)}`;
  },
  'Complete, If-None-Match: *, nothing there': async (s) => {
    const { id, parts } = await uploadOne(s, 'facts/complete/new', 'first');
    return said(await complete(s, 'facts/complete/new', id, parts, { 'if-none-match': '*' }));
  },
  'Complete, If-None-Match: *, object there': (s) =>
    completeOver(s, 'facts/complete/there', () => ({ 'if-none-match': '*' })),
  'Complete, If-None-Match: *, four at once, ten times': async (s) => {
    const rounds: string[] = [];
    for (let round = 0; round < 10; round += 1) {
      const key = `facts/complete/race ${round}`;
      const ready = await Promise.all(['a', 'b', 'c', 'd'].map((text) => uploadOne(s, key, text)));
      const answers = ready.map(({ id, parts }) =>
        complete(s, key, id, parts, { 'if-none-match': '*' }),
      );
      const won = (await Promise.all(answers)).filter(succeeded).length;
      rounds.push(won === 1 ? 'one succeeds' : won === 4 ? 'all succeed' : 'some succeed');
    }
    const seen = new Set(rounds);
    // How many get through before the first has ended is a matter of luck.
    return seen.size === 1 ? (rounds[0] ?? '') : 'more than one succeeds';
  },
  'Complete, If-Match: "right tag"': (s) =>
    completeOver(s, 'facts/complete/q-right', (tag) => ({ 'if-match': `"${bare(tag)}"` })),
  'Complete, If-Match: right tag, no quotes': (s) =>
    completeOver(s, 'facts/complete/u-right', (tag) => ({ 'if-match': bare(tag) })),
  'Complete, If-Match: "wrong tag"': (s) =>
    completeOver(s, 'facts/complete/q-wrong', () => ({ 'if-match': `"${wrongTag}"` })),
  'Complete, If-Match: wrong tag, no quotes': (s) =>
    completeOver(s, 'facts/complete/u-wrong', () => ({ 'if-match': wrongTag })),
};

const facts: Facts = { ...conditionFacts, ...multipartFacts, ...objectFacts };

/** Asks each question once. One that cannot be asked says why, and the others go on. */
export async function measureFacts(subject: Subject): Promise<ReadonlyMap<string, string>> {
  const measured = new Map<string, string>();
  for (const [question, ask] of Object.entries(facts)) {
    const answer = await ask(subject).catch((error: Error) => `not answered: ${error.message}`);
    measured.set(question, answer);
  }
  return measured;
}

export function formatTable(title: string, measured: ReadonlyMap<string, string>): string {
  const rows = [...measured].map(([question, answer]) => `| ${question} | ${answer} |`);
  return [`| | ${title} |`, '| --- | --- |', ...rows].join('\n');
}

/** What the README of the destination says of a store. @param column its heading there */
export function readDocumentedFacts(column: string): ReadonlyMap<string, string> {
  const readme = new URL('../../src/rows/destinations/s3/README.md', import.meta.url);
  const table = readFileSync(readme, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const index = table[0]?.indexOf(column) ?? -1;
  if (index < 1) throw new Error(`The README has no column ${column}.`);
  return new Map(table.slice(2).map((cells) => [cells[0] ?? '', cells[index] ?? '']));
}
