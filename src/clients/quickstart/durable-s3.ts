import { createHash } from 'node:crypto';
import { open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FastifyInstance, InjectOptions } from 'fastify';
import { buildApp } from 'fauxqs';
import { makeFolder } from '../../state/embedded-postgres/make-folder.ts';

type App = FastifyInstance;
type Headers = Readonly<Record<string, string>>;

/** The first line of an object's file; its bytes follow. */
interface SavedHead {
  readonly bucket: string;
  readonly key: string;
  /** Content type and metadata, as in a PUT. */
  readonly headers: Headers;
  /** Bytes of each part; null for an object of one PUT. The same parts give the same ETag again. */
  readonly parts: readonly number[] | null;
}

export interface DurableS3 {
  readonly app: App;
  /** The number of objects that were read back. */
  readonly restored: number;
}

const unfinished = '.unfinished';

/**
 * Makes an independent S3 server, which keeps its objects in memory, durable: each change of an object is
 * on disk in `folder` before it is answered, and the next start restores the objects with the same ETags.
 * Incomplete uploads are lost. It does not listen yet.
 */
export async function openDurableS3(folder: string): Promise<DurableS3> {
  await makeFolder(folder);
  const app = buildApp({ logger: false });
  const saved = new Map<string, SavedHead>();
  /** Bytes of the parts of each open upload, by their numbers. */
  const uploads = new Map<string, Map<number, number>>();
  let isRestored = false;
  let last: Promise<void> = Promise.resolve();

  app.addHook('onSend', async (request, reply, payload) => {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (!isRestored || isRead || reply.statusCode >= 300) return payload;
    const { bucket = '', '*': key = '' } = request.params as Record<string, string | undefined>;
    const { uploadId, partNumber, uploads: begins } = request.query as Record<string, string>;
    const isBegin = begins !== undefined;
    if (isBegin || (key === '' && request.method !== 'POST')) return payload;
    if (uploadId && partNumber) {
      const sizes = uploads.get(uploadId) ?? new Map<number, number>();
      uploads.set(uploadId, sizes.set(Number(partNumber), bytesOf(request)));
      return payload;
    }
    const parts = uploadId ? partsOf(String(request.body ?? ''), uploads.get(uploadId)) : null;
    uploads.delete(uploadId ?? '');
    if (uploadId && request.method === 'DELETE') return payload;
    const saving = last.then(() =>
      key === '' ? forgetDeleted() : saveObject({ bucket, key, parts }),
    );
    last = saving.catch(() => {});
    await saving;
    return payload;
  });

  /** Writes the server's object to the file of its key. */
  async function saveObject({ bucket, key, parts }: Omit<SavedHead, 'headers'>): Promise<void> {
    const name = nameOf(bucket, key);
    const path = join(folder, name);
    const answer = await app.inject({ method: 'GET', url: urlOf(bucket, key) });
    if (answer.statusCode === 404) {
      await rm(path, { force: true });
      saved.delete(name);
    } else {
      const head = { bucket, key, headers: keptHeaders(answer.headers), parts };
      await writeDurably(path, [`${JSON.stringify(head)}\n`, answer.rawPayload]);
      saved.set(name, head);
    }
    await syncFolder(folder);
  }

  /** A request that deletes many objects names them in its body: a check finds those that are gone. */
  async function forgetDeleted(): Promise<void> {
    for (const head of saved.values()) {
      const { statusCode } = await app.inject({
        method: 'HEAD',
        url: urlOf(head.bucket, head.key),
      });
      if (statusCode === 404) await saveObject(head);
    }
  }

  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (name.endsWith(unfinished)) {
      await rm(path, { force: true });
      continue;
    }
    const bytes = await readFile(path);
    const end = bytes.indexOf('\n');
    const head = JSON.parse(bytes.toString('utf8', 0, end)) as SavedHead;
    await restoreObject(app, head, bytes.subarray(end + 1));
    saved.set(name, head);
  }
  isRestored = true;
  return { app, restored: saved.size };
}

async function restoreObject(app: App, head: SavedHead, bytes: Buffer): Promise<void> {
  const { bucket, key, headers, parts } = head;
  const url = urlOf(bucket, key);
  await ask(app, { method: 'PUT', url: `/${bucket}` });
  if (parts === null) {
    await ask(app, { method: 'PUT', url, headers, payload: bytes });
    return;
  }
  const begun = await ask(app, { method: 'POST', url: `${url}?uploads`, headers });
  const id = /<UploadId>(.*?)<\/UploadId>/.exec(begun.payload)?.[1] ?? '';
  let at = 0;
  let list = '';
  for (const [index, size] of parts.entries()) {
    const part = await ask(app, {
      method: 'PUT',
      url: `${url}?partNumber=${index + 1}&uploadId=${id}`,
      headers: octets,
      payload: bytes.subarray(at, at + size),
    });
    at += size;
    list += `<Part><PartNumber>${index + 1}</PartNumber><ETag>${part.headers.etag}</ETag></Part>`;
  }
  const payload = Buffer.from(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`);
  await ask(app, { method: 'POST', url: `${url}?uploadId=${id}`, headers: octets, payload });
}

const octets = { 'content-type': 'application/octet-stream' };

async function ask(app: App, request: InjectOptions) {
  const answer = await app.inject(request);
  if (answer.statusCode < 300) return answer;
  throw new Error(`The local S3 answers ${answer.statusCode} to its own object: ${answer.payload}`);
}

const urlOf = (bucket: string, key: string): string =>
  `/${bucket}/${key.split('/').map(encodeURIComponent).join('/')}`;

function keptHeaders(headers: Readonly<Record<string, unknown>>): Headers {
  const isKept = (name: string) => name === 'content-type' || name.startsWith('x-amz-meta-');
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      isKept(name) ? [[name, String(value)] as const] : [],
    ),
  );
}

const nameOf = (bucket: string, key: string): string =>
  createHash('sha256').update(`${bucket}/${key}`).digest('hex');

/** A body in signed chunks has its own length in a header. */
function bytesOf({ body, headers }: { body: unknown; headers: NodeJS.Dict<string | string[]> }) {
  const said = headers['x-amz-decoded-content-length'];
  return said === undefined ? (Buffer.isBuffer(body) ? body.length : 0) : Number(said);
}

/** The sizes of the parts that a completion names, in its order. */
function partsOf(body: string, sizes: ReadonlyMap<number, number> | undefined) {
  if (sizes === undefined) return null;
  const numbers = [...body.matchAll(/<PartNumber>(\d+)<\/PartNumber>/g)];
  return numbers.map(([, number]) => sizes.get(Number(number)) ?? 0);
}

async function writeDurably(path: string, pieces: readonly (string | Buffer)[]): Promise<void> {
  await writeFile(path + unfinished, pieces, { flush: true });
  await rename(path + unfinished, path);
}

/** A rename is on disk once its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const opened = await open(folder, 'r');
  await opened.sync().finally(() => opened.close());
}
