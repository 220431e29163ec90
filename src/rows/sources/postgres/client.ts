import type { EventEmitter } from 'node:events';
import type { Connection } from 'pg';
import pg from 'pg';
import { within } from '../../../foundation/domain/patience.ts';

export interface ClientOptions {
  readonly connectionString: string;
  readonly applicationName: string;
  /** Unless `connect_timeout` in the address is longer. 0: no limit. */
  readonly connectTimeoutMs: number;
}

/** It gives its password only as the address allows. */
export function newClient(options: ClientOptions): pg.Client {
  const parameters = new URLSearchParams(options.connectionString.split('?')[1]);
  const binding = parameters.get('channel_binding');
  const client = new pg.Client({
    connectionString: options.connectionString,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectTimeoutMs === 0 ? 0 : connectTimeoutOf(options),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    enableChannelBinding: binding === 'require' || binding === 'prefer',
  });
  if (binding === 'require') requireChannelBinding(client);
  return client;
}

/** The time that a session may take to begin: some servers look up each client for longer than others. */
export function connectTimeoutOf({ connectionString, connectTimeoutMs }: ClientOptions): number {
  const parameters = new URLSearchParams(connectionString.split('?')[1]);
  return Math.max(connectTimeoutMs, Number(parameters.get('connect_timeout')) * 1_000);
}

/** The proof of the password must also prove the certificate: nothing between the two can pass it on. */
function requireChannelBinding(client: pg.Client): void {
  const { password } = client;
  const connection = connectionOf(client) as unknown as EventEmitter;
  let isBound = false;
  connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: readonly string[] }) => {
    isBound = mechanisms.includes('SCRAM-SHA-256-PLUS');
  });
  connection.on('authenticationOk', () => {
    if (!isBound) connection.emit('error', noBinding());
  });
  Object.assign(client, {
    password: async () => {
      if (!isBound) throw noBinding();
      return password;
    },
  });
}

const noBinding = () => new Error('the server offers no channel binding');

export function connectionOf(client: pg.Client): Connection {
  return (client as unknown as { readonly connection: Connection }).connection;
}

/** So many looks in a row without an answer: one may meet a server that is busy. */
const maxUnanswered = 3;

/**
 * A frozen server, or one that is cut off without a reset, does not answer a new connection; one that sorts does. @param
 * onSilent called once, if no look was answered @returns ends the watch
 */
export function watchSilence(
  options: ClientOptions,
  silenceMs: number,
  onSilent: () => void,
): () => void {
  let isOver = false;
  let unanswered = 0;
  const look = async () => {
    unanswered = (await answers(options)) ? 0 : unanswered + 1;
    if (isOver) return;
    if (unanswered < maxUnanswered) timer = setTimeout(look, silenceMs / 5);
    else onSilent();
  };
  let timer = setTimeout(look, silenceMs);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** Says whether anything comes of a new connection within its time: a login, a refusal, a reset. */
async function answers(options: ClientOptions) {
  const client = newClient({ ...options, connectTimeoutMs: 0 });
  client.on('error', () => {});
  const connected = client.connect().then(
    () => true,
    () => true,
  );
  const isAnswered = await within(connectTimeoutOf(options), connected, false);
  connectionOf(client).stream.destroy();
  return isAnswered;
}
