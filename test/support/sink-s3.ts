import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen, stopServer } from './free-port.ts';

/** A file as the sink saw it. */
export interface SunkFile {
  readonly bytes: number;
  readonly parts: number;
  /** Line feeds in it: the rows of plain JSON Lines. */
  readonly lines: number;
  /** Its last two parts, which hold a Parquet file's footer. */
  readonly tail: Buffer;
}

export interface SinkS3 {
  readonly endpoint: string;
  /** Of completed uploads, by key. */
  readonly files: ReadonlyMap<string, SunkFile>;
  /** Objects put in one request, by key: the manifests. */
  readonly objects: ReadonlyMap<string, Buffer>;
  close(): Promise<void>;
}

interface Part {
  readonly bytes: number;
  readonly lines: number;
  body: Buffer | null;
}

/** An S3 that takes any amount of bytes, counts them and keeps only the ends. It checks nothing. */
export async function startSinkS3(): Promise<SinkS3> {
  const uploads = new Map<string, Map<number, Part>>();
  const files = new Map<string, SunkFile>();
  const objects = new Map<string, Buffer>();
  const heads = new Map<string, { readonly etag: string; readonly size: number }>();
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://sink');
    const key = decodeURIComponent(url.pathname.split('/').slice(2).join('/'));
    const uploadId = url.searchParams.get('uploadId') ?? '';
    const number = Number(url.searchParams.get('partNumber'));
    const etag = `"${randomUUID()}"`;
    if (request.method === 'POST' && url.searchParams.has('uploads')) {
      const id = randomUUID();
      uploads.set(id, new Map());
      response.setHeader('x-amz-checksum-algorithm', 'CRC32');
      end(
        response,
        200,
        `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      );
    } else if (request.method === 'PUT' && uploadId !== '') {
      const parts = uploads.get(uploadId);
      parts?.set(number, await readPart(request));
      // Parts in flight may arrive in any order; the last two are among the last six.
      const old = parts?.get(number - 6);
      if (old) old.body = null;
      end(response.setHeader('etag', etag), 200, '');
    } else if (request.method === 'POST') {
      request.resume();
      const parts = uploads.get(uploadId) ?? new Map();
      files.set(key, fileOf(parts));
      heads.set(key, { etag, size: fileOf(parts).bytes });
      uploads.delete(uploadId);
      end(
        response,
        200,
        `<CompleteMultipartUploadResult><ETag>${etag}</ETag></CompleteMultipartUploadResult>`,
      );
    } else if (request.method === 'PUT') {
      const body = (await readPart(request)).body ?? Buffer.alloc(0);
      objects.set(key, body);
      // As at a real store; the tag of parts stays a name.
      const md5 = createHash('md5').update(body).digest('hex');
      end(response.setHeader('etag', `"${md5}"`), 200, '');
    } else if (request.method === 'HEAD' && heads.has(key)) {
      const head = heads.get(key);
      response.setHeader('content-length', head?.size ?? 0);
      end(response.setHeader('etag', head?.etag ?? ''), 200, '');
    } else if (request.method === 'DELETE') {
      end(response, 204, '');
    } else {
      end(response, 404, '<Error><Code>NoSuchKey</Code><Message>nothing is kept</Message></Error>');
    }
  }

  return {
    endpoint: `http://127.0.0.1:${await listen(server)}`,
    files,
    objects,
    close: () => stopServer(server),
  };
}

function end(response: ServerResponse, status: number, body: string): void {
  response.statusCode = status;
  response.end(body);
}

async function readPart(request: IncomingMessage): Promise<Part> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  let lines = 0;
  for (let at = body.indexOf(10); at !== -1; at = body.indexOf(10, at + 1)) lines += 1;
  return { bytes: body.length, lines, body };
}

function fileOf(parts: ReadonlyMap<number, Part>): SunkFile {
  const inOrder = [...parts].toSorted(([one], [other]) => one - other).map(([, part]) => part);
  const sum = (value: (part: Part) => number) =>
    inOrder.reduce((all, part) => all + value(part), 0);
  return {
    bytes: sum((part) => part.bytes),
    lines: sum((part) => part.lines),
    parts: inOrder.length,
    tail: Buffer.concat(inOrder.slice(-2).flatMap(({ body }) => body ?? [])),
  };
}
