import { expect, test } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { findAddressFault } from '../../../src/foundation/config/postgres-address.ts';

test.each([
  'postgres://u:p@host/db',
  'postgresql://u@host:5433/db?sslmode=verify-full&channel_binding=require',
  'postgres://u:p%40ss@host/db?application_name=x',
  'postgres://u:p@[::1]:5432/db',
  'postgres:///db?host=/var/run/postgresql',
  'postgres://u:p@/db?host=/var/run/postgresql',
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
  ['postgres://u:s3cret@a/db?load_balance_hosts=random', /has load_balance_hosts/],
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
  ['postgres://u:s3cret@a/db?sslrootcert=system', /has sslrootcert=system/],
  [
    'postgres://u:s3cret@a/db?ssl_mode=verify-full',
    /has ssl_mode, which is unknown: write sslmode/,
  ],
  ['postgres://u:s3cret@a/db?SSLMODE=verify-full', /has SSLMODE, which is unknown: write sslmode/],
  ['postgres://u:s3cret@a/db?ssl_root_cert=x', /has ssl_root_cert, which .* write sslrootcert/],
  ['postgres://u:s3cret@a/db?sslmode=verify-full&sslmode=disable', /has sslmode more than once/],
  ['postgres://u:s3cret@a/db?replication=database', /has replication, which is not supported/],
  ['postgres://u:s3cret@a/db?sslnegotiation=late', /has an sslnegotiation/],
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
