import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join, sep } from 'node:path';
import type { FastifyPluginCallback } from 'fastify';
import type { Api, Reply, Request } from '../api.ts';
import { type OperatorAccess, requireOperator } from './operators.ts';

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
function serveFile(api: Api, path: string, file: string, headers: Headers): void {
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
function serveFolder(
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

/** Allows only the page's own files and the API on the same host. No inline script or style. */
const consolePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Serves the operators' page at /console/, and redirects / to it. Without a folder, both answer 404. */
export function serveConsole(api: Api, folder: string | null): void {
  if (folder === null) return;
  api.get('/', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/console/'));
  serveFolder(api, '/console/', folder, (name) => ({
    // Names of assets change with their content, so they can be cached; the page itself cannot.
    'cache-control': name.startsWith('assets/')
      ? 'public, max-age=31536000, immutable'
      : 'no-cache',
    'content-security-policy': consolePolicy,
  }));
}

/** Strict, but without the upgrade to https, so the page also works over http in a private network. */
const docsPolicy =
  "default-src 'self'; base-uri 'self'; object-src 'none'; frame-ancestors 'none'; img-src 'self' data:";

/** The OpenAPI document and its pages at /api/docs. Without a folder, they answer 404. */
export function serveDocs(api: Api, folder: string | null): void {
  if (folder === null) return;
  const headers = { 'content-security-policy': docsPolicy, 'cache-control': 'no-cache' };
  serveFile(api, '/api/openapi.json', `${folder}/openapi.json`, { 'cache-control': 'no-cache' });
  serveFolder(api, '/api/docs/', `${folder}/docs`, () => headers);
}

const boardPolicy =
  "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; font-src 'self' data:; frame-ancestors 'none'";

/** Its page asks another host for fonts, which would learn who looks at it. The system's fonts do. */
const outsideLink = /<link\b[^>]*\bhref="https?:[^>]*>/gi;

const isPage = (reply: Reply, payload: unknown): payload is string =>
  typeof payload === 'string' && String(reply.getHeader('content-type')).startsWith('text/html');

export function mountQueueBoard(api: Api, access: OperatorAccess, board: FastifyPluginCallback) {
  api.register(
    async (scope: Api) => {
      scope.addHook('onRequest', async (_request, reply) => {
        reply.header('content-security-policy', boardPolicy);
      });
      requireOperator(scope, access);
      scope.addHook('onSend', async (_request, reply, payload) =>
        isPage(reply, payload) ? payload.replaceAll(outsideLink, '') : payload,
      );
      await scope.register(board);
    },
    { prefix: '/admin/queues' },
  );
}
