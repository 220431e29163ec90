import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Api } from '../api.ts';
import { acceptedCodings, namesTag } from '../built-files.ts';

/** A smaller answer fits into one packet anyway. */
const leastBytes = 1_400;

const compressors = {
  br: promisify((text: string, done: (error: Error | null, bytes: Buffer) => void) =>
    brotliCompress(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }, done),
  ),
  gzip: promisify<string, Buffer>(gzip),
};

/**
 * Answers 304 to a client that has the same answer already, and compresses lists.
 *
 * The tag is the digest of the whole answer, which is made for each request after its key was checked. So a 304 hides no change:
 * neither one by time alone, nor one of what a key may see.
 *
 * The length of a compressed answer says something about its content. So only routes that ask for it are compressed: they have no
 * rows, no log and no secret.
 */
export function spareBytes(api: Api): void {
  api.addHook('onSend', async (request, reply, payload) => {
    const { scope, compresses } = request.routeOptions.config;
    if (request.method !== 'GET' || scope === undefined || reply.statusCode !== 200) return payload;
    if (typeof payload !== 'string') return payload;
    const digest = createHash('sha256').update(payload).digest('base64url').slice(0, 22);
    const etag = `W/"${digest}"`;
    reply.headers({ etag, vary: 'authorization, accept-encoding' });
    if (namesTag(request.headers['if-none-match'], etag)) {
      reply.code(304);
      return null;
    }
    if (!compresses || Buffer.byteLength(payload) < leastBytes) return payload;
    const accepted = acceptedCodings(String(request.headers['accept-encoding'] ?? ''));
    const coding = (['br', 'gzip'] as const).find((name) => accepted.has(name));
    if (coding === undefined) return payload;
    reply.header('content-encoding', coding).removeHeader('content-length');
    return compressors[coding](payload);
  });
}
