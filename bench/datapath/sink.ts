import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * An S3 for one benchmark, in a process of its own: it takes whatever is sent, counts it and keeps
 * nothing but the sizes of uploads. It sends its port to its parent. Asked `take`, it answers the bytes of all objects but
 * manifests and warm-ups since the last time. Not the tests' S3 sink: that one unpacks and counts lines,
 * which would take CPU from what is measured.
 */
let bytes = 0;

/** Bytes of each upload in progress; then those of its object, with its tag. */
const uploads = new Map<string, number>();
const objects = new Map<string, { readonly etag: string; readonly size: number }>();

const server = createServer(async (request, response) => {
  const url = new URL(request.url ?? '/', 'http://sink');
  const isCounted = !/manifest\.json$|\/warm-up\//.test(url.pathname);
  const upload = url.searchParams.get('uploadId') ?? '';
  // The tag of what is put at once, which is small, is its MD5, as at a real store.
  const md5 = request.method === 'PUT' && upload === '' ? createHash('md5') : null;
  const read = await count(request, (chunk) => md5?.update(chunk));
  const object = objects.get(url.pathname);
  if (request.method === 'PUT') {
    if (isCounted) bytes += read;
    uploads.set(upload, (uploads.get(upload) ?? 0) + read);
    response.setHeader('etag', `"${md5?.digest('hex') ?? randomUUID()}"`).end();
  } else if (request.method === 'POST' && url.searchParams.has('uploads')) {
    response.setHeader('x-amz-checksum-algorithm', 'CRC32');
    response.end(xml('InitiateMultipartUploadResult', 'UploadId', randomUUID()));
  } else if (request.method === 'POST') {
    const etag = `"${randomUUID()}"`;
    objects.set(url.pathname, { etag, size: uploads.get(upload) ?? 0 });
    uploads.delete(upload);
    response.end(xml('CompleteMultipartUploadResult', 'ETag', etag));
  } else if (request.method === 'HEAD' && object) {
    response.setHeader('etag', object.etag).setHeader('content-length', object.size).end();
  } else {
    response.statusCode = 404;
    response.end(xml('Error', 'Code', 'NoSuchKey'));
  }
});

async function count(request: IncomingMessage, see: (chunk: Buffer) => void): Promise<number> {
  let read = 0;
  for await (const chunk of request) {
    see(chunk as Buffer);
    read += (chunk as Buffer).length;
  }
  return read;
}

const xml = (root: string, name: string, value: string) =>
  `<${root}><${name}>${value}</${name}></${root}>`;

process.on('message', () => {
  process.send?.(bytes);
  bytes = 0;
});
process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
