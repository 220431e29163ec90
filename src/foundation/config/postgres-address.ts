import { readFileSync } from 'node:fs';
import { nearestName } from '../domain/nearest-name.ts';

const schemes = /^postgres(ql)?:\/\//;
const sslModes = ['disable', 'no-verify', 'prefer', 'require', 'verify-ca', 'verify-full'];
const files = ['sslrootcert', 'sslcert', 'sslkey'];
/** All parameters that mean what they say. Our client ignores others, such as a misspelt sslmode, so they are refused. */
const supported = [
  ...files,
  'sslmode',
  'sslnegotiation',
  'channel_binding',
  'host',
  'port',
  'user',
  'password',
  'options',
  'connect_timeout',
  'application_name',
  'fallback_application_name',
  'client_encoding',
  'gssencmode',
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
];
/** The settings that an address means instead. Other parameters of libpq have no such remedy. */
const unsupported: Readonly<Record<string, string>> = {
  target_session_attrs: 'Name the address of one server, or of a proxy that leads to the right one',
  load_balance_hosts: 'Name the address of one server, or of a proxy',
  hostaddr: 'Use the IP address as the host',
  service: 'Write the address in full',
  passfile: 'Put the password into the address',
  sslcrl: 'Sluice reads no revocation list',
  sslcrldir: 'Sluice reads no revocation list',
  sslpassword: 'Use a key without a password',
  requirepeer: 'Remove it',
  replication: 'Remove it',
  ssl: 'Write sslmode=verify-full or sslmode=disable',
  uselibpqcompat: 'Write sslmode=verify-full, or no-verify to encrypt without verification',
  dbname: 'Write the database as the path',
  database: 'Write the database as the path',
  query_timeout: 'Remove it',
};

export const isPostgresAddress = (text: string): boolean => schemes.test(text);

/** The fault, as the rest of a sentence; null if there is none. It repeats no part of the address that can be secret. */
export function findAddressFault(address: string): string | null {
  const rest = address.replace(schemes, '');
  const authority = rest.split(/[/?#]/, 1)[0] ?? '';
  const hosts = authority.slice(authority.lastIndexOf('@') + 1);
  const split = rest.lastIndexOf('@') >= authority.length;
  if (split && /^[^?]*@/.test(rest) && !/^[^/?#]*@/.test(rest)) {
    return 'has a password with one of the characters / ? # in it: write them as %2F, %3F and %23';
  }
  const parameters = new URLSearchParams(/\?([^#]*)/.exec(rest)?.[1] ?? '');
  const named = parameters.get('host') ?? '';
  if (hosts.includes(',') || named.includes(',') || parameters.get('port')?.includes(',')) {
    return 'names several hosts: name one server, or a proxy that leads to the right one';
  }
  if (/\s/.test(address)) return 'has a space or a line break in it: write a space as %20';
  if (/:.*:/.test(hosts) && !/^\[[0-9a-f:.]+\](:\d*)?$/i.test(hosts)) {
    return 'has an IPv6 address that is not valid: put it into brackets, without a zone, such as [2001:db8::1]:5432';
  }
  if (!URL.canParse(address) && !URL.canParse(address.replace('@/', '@localhost/'))) {
    const [, port] = /:([^:@\]]*)$/.exec(hosts) ?? [];
    return port !== undefined && !/^\d*$/.test(port)
      ? 'has a port that is not a number from 1 to 65535'
      : 'is not a valid address: percent-encode special characters of user, password and database';
  }
  if (hosts === '' && named === '') return 'names no host';
  const portGiven = parameters.get('port') ?? /:(\d+)$/.exec(hosts)?.[1] ?? '5432';
  if (!/^\d+$/.test(portGiven) || Number(portGiven) < 1 || Number(portGiven) > 65_535) {
    return 'has a port that is not a number from 1 to 65535';
  }
  if (isMalformed(authority) || isMalformed(rest.split('?')[0] ?? '')) {
    return 'has a % that is no percent-encoding: write % as %25';
  }
  return findParameterFault(parameters);
}

/** The same address in the words of its client, which warns of three modes on each start because it takes them for verify-full. */
export const inClientWords = (address: string): string =>
  address.replace(/(\?[^#]*\bsslmode=)(?:prefer|require|verify-ca)(?=&|#|$)/, '$1verify-full');

/** Describes the fault of the parts that only the addresses of sources can have; null if nothing is. */
export function findOwnFault(address: string): string | null {
  const [, text = ''] = /\?([^#]*)/.exec(address) ?? [];
  const parameters = new URLSearchParams(text);
  const only = 'which only the address of a source can have: remove it';
  if (parameters.has('connect_timeout')) return `has connect_timeout, ${only}`;
  return parameters.get('channel_binding') === 'require'
    ? `has channel_binding=require, ${only}, and keep sslmode=verify-full`
    : null;
}

function isMalformed(text: string): boolean {
  try {
    decodeURIComponent(text);
    return false;
  } catch {
    return true;
  }
}

function findParameterFault(parameters: URLSearchParams): string | null {
  for (const [name, remedy] of Object.entries(unsupported)) {
    if (parameters.has(name)) return `has ${name}, which is not supported: ${remedy}`;
  }
  for (const name of parameters.keys()) {
    if (parameters.getAll(name).length > 1) return `has ${name} more than once`;
    if (supported.includes(name)) continue;
    const meant = nearestName(name, supported, 4);
    if (meant !== null) return `has ${name}, which is unknown: write ${meant}`;
    // It may be a part of a password that was not encoded.
    const shown = /^[a-z_]{1,40}$/i.test(name) ? name : 'a parameter';
    return `has ${shown}, which Sluice does not support: remove it`;
  }
  const encoding = parameters.get('client_encoding');
  if (encoding !== null && !/^(utf-?8|auto)$/i.test(encoding)) {
    return 'has a client_encoding that is not UTF8: remove it, as Sluice reads all text as UTF-8';
  }
  if (parameters.get('gssencmode') === 'require') {
    return 'has gssencmode=require, which is not supported: use TLS, by sslmode=verify-full';
  }
  const mode = parameters.get('sslmode');
  if (mode !== null && !sslModes.includes(mode)) {
    return `has sslmode=${mode}: use ${sslModes.join(', ')}`;
  }
  const negotiation = parameters.get('sslnegotiation');
  if (negotiation !== null && !['postgres', 'direct'].includes(negotiation)) {
    return 'has an sslnegotiation that is neither postgres nor direct';
  }
  if (negotiation === 'direct' && mode === 'disable') {
    return 'has sslnegotiation=direct with sslmode=disable: remove one of them';
  }
  const binding = parameters.get('channel_binding');
  if (binding !== null && !['require', 'prefer', 'disable'].includes(binding)) {
    return 'has a channel_binding that is neither require nor prefer nor disable';
  }
  if (binding === 'require' && (mode ?? 'disable') === 'disable') {
    return 'has channel_binding=require without TLS: add sslmode=verify-full';
  }
  const seconds = parameters.get('connect_timeout');
  if (seconds !== null && !/^(?:1\d|[2-5]\d|60)$/.test(seconds)) {
    return 'has a connect_timeout that is not a number of seconds from 10 to 60';
  }
  if (parameters.get('sslrootcert') === 'system') {
    return 'has sslrootcert=system: remove it, as public authorities are trusted without it';
  }
  for (const name of files) {
    const file = parameters.get(name);
    const text = file === null ? '' : readText(file);
    if (text === null) {
      return `names ${file} as ${name}, which this process cannot read: correct the path or its rights`;
    }
    if (file !== null && !text.includes('-----BEGIN ')) {
      return `names ${file} as ${name}, which is no PEM file: it must contain a line such as -----BEGIN CERTIFICATE-----`;
    }
  }
  const hasOne = parameters.has('sslcert') !== parameters.has('sslkey');
  return hasOne
    ? 'has only one of sslcert and sslkey: a certificate of the client needs both'
    : null;
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return null;
  }
}
