import { expect, test } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import {
  findAddressFault,
  inClientWords,
} from '../../../src/foundation/config/postgres-address.ts';

test.each([
  'postgres://u:p@host/db',
  'postgresql://u@host:5433/db?sslmode=verify-full&channel_binding=require',
  'postgres://u:p%40ss@host/db?application_name=x',
  'postgres://u:p@[::1]:5432/db',
  'postgres://u:p@[::ffff:127.0.0.1]/db',
  'postgres://u:p@/db?host=::1&port=5433',
  'postgres:///db?host=/var/run/postgresql',
  'postgres://u:p@/db?host=/var/run/postgresql',
  'postgres://u@host/db?connect_timeout=30',
  'postgres://host',
  `postgres://u:p@host/db?sslmode=verify-full&sslrootcert=${encodeURIComponent(import.meta.filename)}`,
])('%s is an address', (address) => {
  expect(findAddressFault(address)).toBeNull();
});

test.each([
  ['postgres://u:s3cret@a:5432,b:5432/db', /names several hosts/],
  ['postgres://u:s3cret@a/db?host=a,b', /names several hosts/],
  [
    'postgres://u:s3cret@a/db?target_session_attrs=read-write',
    /has target_session_attrs, which is not/,
  ],
  ['postgres://u:s3cret@a:port/db', /has a port that is not a number/],
  ['postgres://u:s3cret@a:99999/db', /is not a valid address/],
  ['postgres://u:s3cret%zz@a/db', /has a % that is no percent-encoding/],
  ['postgres://u:s3cret/x@a/db', /characters \/ \? # in it/],
  ['postgres://u:s3cret#x@a/db', /characters \/ \? # in it/],
  ['postgres:///db', /names no host/],
  ['postgres://u:s3cret@a/db?sslmode=allow', /has sslmode=allow: use disable, /],
  [
    'postgres://u:s3cret@a/db?sslmode=verify-full&sslrootcert=/no/such.crt',
    /names \/no\/such\.crt as sslrootcert/,
  ],
  // This file has such a line, so it passes for one with a certificate.
  [
    'postgres://u:s3cret@a/db?sslrootcert=/etc/hostname',
    /names \/etc\/hostname as sslrootcert, which is no PEM file: .* -----BEGIN CERTIFICATE-----/,
  ],
  ['postgres://u:s3cret@a/db?sslrootcert=system', /has sslrootcert=system/],
  ['postgres://u:s3cret@a/db?channel_binding=yes', /has a channel_binding that is neither/],
  ['postgres://u:s3cret@a/db?channel_binding=require', /without TLS: add sslmode=verify-full/],
  ['postgres://u:s3cret@a/db?channel_bindings=require', /is unknown: write channel_binding/],
  [
    'postgres://u:s3cret@a/db?ssl_mode=verify-full',
    /has ssl_mode, which is unknown: write sslmode/,
  ],
  ['postgres://u:s3cret@a/db?sslmode=verify-full&sslmode=disable', /has sslmode more than once/],
  ['postgres://u:s3cret@a/db?replication=database', /has replication, which is not supported/],
  ['postgres://u:s3cret@a/db?sslnegotiation=late', /has an sslnegotiation/],
  ['postgres://u:s3cret@a/db?sslnegotiation=direct&sslmode=disable', /remove one of them/],
  ['postgres://u:s3cret@a/db?ssl=false', /has ssl, which is not .* sslmode=disable/],
  ['postgres://u:s3cret@a/?dbname=db', /has dbname, which is not .* as the path/],
  [
    'postgres://u:s3cret@a/db?connect_timeout=0',
    /has a connect_timeout that is not a number of seconds from 10 to 60/,
  ],
  ['postgres://u:s3cret@a/db?require_auth=none', /has require_auth, which .*: remove it/],
  ['postgres://u:s3cret@a/db?gssencmode=require', /has gssencmode=require, .* sslmode=verify-full/],
  ['postgres://u:s3cret@a/db?client_encoding=LATIN1', /has a client_encoding that is not UTF8/],
  ['postgres://u:s3cret@a/db?schema=public', /has schema, which Sluice does not support/],
  ['postgres://u:x@a/db?s3cret%21=1', /has a parameter, which Sluice does not support/],
  ['postgres://u:s3cret x@a/db', /has a space or a line break/],
  ['postgres://u:s3cret@2001:db8::1:5432/db', /has an IPv6 address .* into brackets/],
  ['postgres://u:s3cret@[fe80::1%25eth0]/db', /has an IPv6 address .* without a zone/],
  ['postgres://u:s3cret@a/db?port=70000', /has a port that is not a number from 1 to 65535/],
  ['postgres://u:s3cret@a:0/db', /has a port that is not a number from 1 to 65535/],
  [
    `postgres://u:s3cret@a/db?sslcert=${encodeURIComponent(import.meta.filename)}`,
    /only one of sslcert and sslkey/,
  ],
])('%s is refused by the name of its setting, without its secret', (address, fault) => {
  const read = () => readConfig({ SOURCE_DATABASE_URL: address });
  expect(read).toThrow(fault);
  expect(read).toThrow(/ SOURCE_DATABASE_URL (has|names|is) /);
  expect(read).not.toThrow(/s3cret/);
});

test.each(['DATABASE_URL', 'DATABASE_DIRECT_URL'])(
  '%s refuses what only the address of a source can have',
  (name) => {
    const bound = 'postgres://u:s3cret@a/db?sslmode=verify-full&channel_binding=require';
    const read = () => readConfig({ DATABASE_URL: 'postgres://u@a/db', [name]: bound });
    expect(read).toThrow(new RegExp(`${name} has channel_binding=require, .*: remove it`));
    expect(read).not.toThrow(/s3cret/);
    expect(() => readConfig({ SOURCE_DATABASE_URL: bound })).not.toThrow();
    const slow = 'postgres://u:s3cret@a/db?connect_timeout=30';
    const readSlow = () => readConfig({ DATABASE_URL: 'postgres://u@a/db', [name]: slow });
    expect(readSlow).toThrow(/has connect_timeout, .*: remove it/);
    const prefers = bound.replace('require', 'prefer');
    expect(() => readConfig({ DATABASE_URL: prefers })).not.toThrow();
  },
);

test.each([
  ['postgres://u:p@host/db?sslmode=require', 'postgres://u:p@host/db?sslmode=verify-full'],
  [
    'postgres://u:p@/db?host=h&sslmode=prefer&port=1',
    'postgres://u:p@/db?host=h&sslmode=verify-full&port=1',
  ],
  ['postgres://u:p@host/db?sslmode=verify-ca', 'postgres://u:p@host/db?sslmode=verify-full'],
  ['postgres://u:p@host/db?sslmode=no-verify', 'postgres://u:p@host/db?sslmode=no-verify'],
  ['postgres://u:sslmode=require@host/db', 'postgres://u:sslmode=require@host/db'],
])('%s does not make the client warn of a mode that it takes for another', (address, given) => {
  expect(inClientWords(address)).toBe(given);
  expect(readConfig({ DATABASE_URL: address }).DATABASE_URL).toBe(given);
});
