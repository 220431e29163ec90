import { Socket } from 'node:net';
import nodemailer from 'nodemailer';

export interface MailServer {
  /** `smtp://user:password@host:port` or `smtps://…`. */
  readonly url: string;
  /** An HTTP proxy to it; null: none. */
  readonly proxy: string | null;
  readonly from: string;
}

export interface Mail {
  readonly to: readonly string[];
  readonly subject: string;
  readonly text: string;
  /** Names the mail: a repeated one has the same Message-ID. */
  readonly eventId: string;
}

/** @returns sends one mail within `timeoutMs`, and returns how many recipients were refused while others were accepted */
export function openMailer(
  server: MailServer,
  timeoutMs: number,
): (mail: Mail) => Promise<{ readonly refused: number }> {
  const transport = connectTo(server, timeoutMs);
  const domain = server.from.replace(/^.*@|>?\s*$/g, '');
  return async ({ to, subject, text, eventId }) => {
    const patience = new AbortController();
    const sending = transport.sendMail({
      signal: patience.signal,
      from: server.from,
      to: [...to],
      subject,
      text,
      messageId: `<${eventId}@${domain}>`,
      headers: { 'auto-submitted': 'auto-generated' },
    });
    const info = await inTime(sending, timeoutMs, () => patience.abort());
    return { refused: info.rejected.length };
  };
}

/** Connects, encrypts and logs in as for a mail, and sends none. It throws an error of the server or of the connection. */
export async function checkMailServer(server: MailServer, timeoutMs: number): Promise<void> {
  const socket = new Socket();
  const opened = [socket];
  const transport = connectTo(server, timeoutMs, server.proxy === null ? { socket } : {});
  const { getSocket: openTunnel } = transport;
  if (openTunnel) {
    transport.getSocket = (options, callback) =>
      openTunnel(options, (error, found) => {
        const { connection } = found || {};
        if (connection) opened.push(connection);
        callback(error, found);
      });
  }
  const close = () => {
    for (const each of opened) each.destroy();
  };
  await inTime(transport.verify(), timeoutMs, close);
}

function connectTo(
  server: MailServer,
  timeoutMs: number,
  given: { readonly socket?: Socket } = {},
) {
  return nodemailer.createTransport({
    url: server.url,
    ...given,
    ...(server.proxy === null ? {} : { proxy: server.proxy }),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    // A mail's text must not make the process read a file or an address.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** A server that answers byte by byte meets none of the limits of a connection. @param close ends the connection */
async function inTime<Result>(
  work: Promise<Result>,
  timeoutMs: number,
  close: () => void,
): Promise<Result> {
  let overdue: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_, reject) => {
    const error = Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' });
    overdue = setTimeout(() => {
      reject(error);
      close();
    }, timeoutMs);
  });
  return Promise.race([work, tooLong]).finally(() => clearTimeout(overdue));
}

/** Node's codes of a certificate that this process does not trust. The library keeps them beside its own. */
const certificateCodes =
  /^(?:ERR_TLS_CERT_|CERT_|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED_CERT|UNABLE_TO_(?:GET|VERIFY)|HOSTNAME_MISMATCH)/;

export function isCertificateFault(error: unknown): boolean {
  const { code = '', originalCode = code } = error as { code?: string; originalCode?: string };
  return certificateCodes.test(originalCode);
}

/** The answer to a failed mail that the owner of the target sees: the server's code, or a word. */
export function mailAnswerOf(error: unknown): string {
  const { code = '', responseCode } = error as { code?: string; responseCode?: number };
  if (typeof responseCode === 'number') return `SMTP ${responseCode}`;
  if (isCertificateFault(error)) return 'certificate_refused';
  return code === 'ETIMEDOUT' ? 'timeout' : 'mail_server_unavailable';
}
