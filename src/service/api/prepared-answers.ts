import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join, sep } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Api, Reply, Request } from './api.ts';

const compress = promisify(gzip);

/** An answer that never changes: all its clients share its bytes. */
interface Prepared {
  readonly type: string;
  readonly plain: Buffer;
  /** Null if compression gains nothing. */
  readonly gzipped: Buffer | null;
  readonly etag: string;
}

type Headers = Readonly<Record<string, string>>;

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
};

/**
 * Answers GET at `path` with what `make` returns. It is made and compressed once, for the first request, so no
 * request opens a file and no answer costs memory of its own.
 *
 * @param name decides the type of the content by its extension
 */
export function servePrepared(
  api: Api,
  path: string,
  name: string,
  headers: Headers,
  make: () => Promise<Buffer | string>,
): void {
  let prepared: Promise<Prepared> | null = null;
  api.get(path, { schema: { hide: true } }, async (request, reply) => {
    prepared ??= prepare(name, make);
    // The next request tries again.
    prepared.catch(() => {
      prepared = null;
    });
    return send(request, reply.headers(headers), await prepared);
  });
}

/** Answers with the files of a folder and its folders, as they are at the start. A file `index.html` is also its folder. */
export function serveFolder(
  api: Api,
  prefix: string,
  folder: string,
  headersOf: (name: string) => Headers,
): void {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((found) => found.isFile())) {
    const file = join(entry.parentPath, entry.name);
    const name = file.slice(folder.length).split(sep).filter(Boolean).join('/');
    const paths = [
      name,
      ...(entry.name === 'index.html' ? [name.slice(0, -entry.name.length)] : []),
    ];
    const make = () => readFile(file);
    for (const path of paths) servePrepared(api, prefix + path, name, headersOf(name), make);
  }
}

async function prepare(name: string, make: () => Promise<Buffer | string>): Promise<Prepared> {
  const plain = Buffer.from(await make());
  const gzipped = await compress(plain, { level: 9 });
  return {
    type: types[extname(name)] ?? 'application/octet-stream',
    plain,
    gzipped: gzipped.length < plain.length * 0.9 ? gzipped : null,
    etag: `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`,
  };
}

function send({ headers }: Request, reply: Reply, { type, plain, gzipped, etag }: Prepared): Reply {
  reply.type(type).headers({ etag, vary: 'accept-encoding' });
  const known = headers['if-none-match']?.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  if (known?.includes(etag)) return reply.code(304).send();
  const takesGzip = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(
    String(headers['accept-encoding'] ?? ''),
  );
  if (gzipped === null || !takesGzip) return reply.send(plain);
  return reply.header('content-encoding', 'gzip').send(gzipped);
}
