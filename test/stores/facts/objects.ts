import { createHash } from 'node:crypto';
import type { Subject } from '../../conformance/s3-protocol-subject.ts';
import {
  abort,
  begin,
  bodyForm,
  byId,
  complete,
  crc32Of,
  elements,
  type Facts,
  put,
  said,
  sendPart,
  tagOf,
} from './asking.ts';

/** Checksums, listings and errors. */
export const objectFacts: Facts = {
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
