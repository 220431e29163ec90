import {
  abort,
  bare,
  begin,
  byId,
  complete,
  element,
  elements,
  type Facts,
  fiveMiB,
  formOf,
  put,
  said,
  sendPart,
  succeeded,
  tagOf,
  uploadOne,
  wrongTag,
} from './asking.ts';

export const multipartFacts: Facts = {
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
