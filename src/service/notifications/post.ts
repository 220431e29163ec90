import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isErrorCode, SluiceError } from '../../foundation/domain/errors.ts';
import type { OutboundAgents } from '../../foundation/security/outbound-filter.ts';

/** Answers such as 102 Processing before the one that counts. */
const maxInformational = 10;

export interface Post {
  readonly url: URL;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  /** On whose behalf its name is resolved. */
  readonly tenant: string;
}

/** For `timeoutMs` in all; reads no body, follows no redirect. @returns the status @throws Error, which `answerOf` describes */
export function post(
  { httpAgent, httpsAgent }: OutboundAgents,
  { url, body, headers, tenant }: Post,
  timeoutMs: number,
): Promise<number> {
  const secure = url.protocol === 'https:';
  const bytes = Buffer.from(body);
  const options = {
    tenant,
    agent: secure ? httpsAgent : httpAgent,
    method: 'POST',
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? undefined : Number(url.port),
    path: `${url.pathname}${url.search}`,
    headers: {
      'content-type': 'application/json',
      'content-length': String(bytes.length),
      'user-agent': 'Sluice-Notifications/1',
      ...headers,
    },
    maxHeaderSize: 16_384,
  };
  return new Promise((resolve, reject) => {
    const outgoing = (secure ? httpsRequest : httpRequest)(options);
    const overdue = setTimeout(() => {
      outgoing.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' }));
    }, timeoutMs);
    outgoing.on('error', reject);
    outgoing.once('close', () => {
      clearTimeout(overdue);
      // Does nothing after an answer or an error.
      reject(Object.assign(new Error('closed without an answer'), { code: 'ECONNRESET' }));
    });
    let informational = 0;
    outgoing.on('information', () => {
      informational += 1;
      // Each costs time, and none ends the wait for the answer.
      if (informational <= maxInformational) return;
      outgoing.destroy(Object.assign(new Error('endless answers'), { code: 'HPE_ENDLESS' }));
    });
    outgoing.once('response', (response) => {
      resolve(response.statusCode ?? 0);
      // Whatever follows is not ours to read; it would hold the connection.
      response.destroy();
    });
    outgoing.end(bytes);
  });
}

/** The word for a failed request that the owner of the target sees, without any address. */
export function answerOf(error: unknown): string {
  if (error instanceof SluiceError && isErrorCode(error.code)) {
    return error.code.replace(/^\w+\./, '');
  }
  const { code = '' } = error as { code?: string };
  if (/^(ETIMEDOUT|ETIMEOUT|ESOCKET_TIMEOUT)$/.test(code)) return 'timeout';
  if (/^(ENOTFOUND|ENODATA|EAI_\w+|ESERVFAIL|EREFUSED|EBADRESP)$/.test(code)) return 'unknown_host';
  if (code === 'ECONNREFUSED') return 'connection_refused';
  if (/^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|EPROTO)/.test(code)) {
    return 'tls_error';
  }
  if (/^HPE_/.test(code)) return 'invalid_answer';
  return 'connection_failed';
}
