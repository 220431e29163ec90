import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join, sep } from 'node:path';
import type { Api, Reply, Request } from './api.ts';

/** A file that the build wrote: all its readers share its bytes. */
interface BuiltFile {
  readonly type: string;
  readonly etag: string;
  readonly plain: Buffer;
  /** The forms that the build compressed, the smallest first. */
  readonly packed: readonly { readonly coding: string; readonly bytes: Buffer }[];
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

/** The content codings, the smallest first, and the end of the names of their files. */
const codings = { br: '.br', gzip: '.gz' };
const suffixes = Object.values(codings);

/** Answers GET at `path` with a file of the build. It is read for the first request, and no later one opens a file. */
export function serveFile(api: Api, path: string, file: string, headers: Headers): void {
  let reading: Promise<BuiltFile> | null = null;
  api.get(path, { schema: { hide: true } }, async (request, reply) => {
    reading ??= readBuilt(file);
    // The next request tries again.
    reading.catch(() => {
      reading = null;
    });
    return send(request, reply.headers(headers), await reading);
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
  for (const entry of entries) {
    if (!entry.isFile() || suffixes.includes(extname(entry.name))) continue;
    const file = join(entry.parentPath, entry.name);
    const name = file.slice(folder.length).split(sep).filter(Boolean).join('/');
    const ownFolder = entry.name === 'index.html' ? [name.slice(0, -entry.name.length)] : [];
    for (const path of [name, ...ownFolder]) serveFile(api, prefix + path, file, headersOf(name));
  }
}

async function readBuilt(file: string): Promise<BuiltFile> {
  const plain = await readFile(file);
  const forms = Object.entries(codings).filter(([, suffix]) => existsSync(file + suffix));
  return {
    type: types[extname(file)] ?? 'application/octet-stream',
    etag: `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`,
    plain,
    packed: await Promise.all(
      forms.map(async ([coding, suffix]) => ({ coding, bytes: await readFile(file + suffix) })),
    ),
  };
}

function send({ headers }: Request, reply: Reply, file: BuiltFile): Reply {
  const { type, etag, plain, packed } = file;
  reply.type(type).headers({ etag, vary: 'accept-encoding' });
  if (namesTag(headers['if-none-match'], etag)) return reply.code(304).send();
  const accepted = acceptedCodings(String(headers['accept-encoding'] ?? ''));
  const best = packed.find(({ coding }) => accepted.has(coding));
  if (!best) return reply.send(plain);
  return reply.header('content-encoding', best.coding).send(best.bytes);
}

/** Says whether an If-None-Match names the tag: the client has this answer. */
export function namesTag(header: string | undefined, etag: string): boolean {
  const bare = (tag: string) => tag.trim().replace(/^W\//, '');
  return header?.split(',').map(bare).includes(bare(etag)) ?? false;
}

/** The codings that a header names, without those of weight 0. */
export function acceptedCodings(header: string): ReadonlySet<string> {
  const parts = header.toLowerCase().split(',');
  const named = parts.map((part) => part.split(';').map((word) => word.trim()));
  const refuses = (word: string) => /^q=0(\.0*)?$/.test(word);
  return new Set(named.flatMap(([coding = '', ...words]) => (words.some(refuses) ? [] : [coding])));
}
