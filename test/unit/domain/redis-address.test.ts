import { describe, expect, it } from 'vitest';
import { ConfigError, readConfig } from '../../../src/foundation/config/config.ts';

const addressOf = (REDIS_URL: string) => readConfig({ REDIS_URL }).REDIS_URL;

describe('the address of Redis', () => {
  it('stays as it is', () => {
    for (const url of ['redis://h', 'rediss://u:p,@h:1/3?family=6', 'redis://[::1]:6379']) {
      expect(addressOf(url)).toBe(url);
    }
  });

  const group = /REDIS_URL must name one server .* Without REDIS_URL the queues are in PostgreSQL/;

  it.each([
    ['http://h', /REDIS_URL must be redis:\/\//],
    // These parts would be ignored.
    ['redis://h/jobs', /only the number of a database after \//],
    ['rediss://u:s3cret@h:1/3?ssl_cert_reqs=none', /no parameter but family/],
    ['x://u:s3cret@h', /REDIS_URL must be redis/],
    ['redis://u:s3cret%@h', /write % as %25/],
    ['redis://u:s3cret@h:99999', /REDIS_URL must be redis/],
    ['redis://u:s3cret@h1:x,h2', group],
    ['rediss+cluster://u:s3cret@h', group],
    ['redis+sentinel://u:s3cret@h1:1/main?sentinel_password=s3cret', group],
  ])('%s is refused, with the remedy and without the password', (url, message) => {
    expect(() => addressOf(url)).toThrow(ConfigError);
    expect(() => addressOf(url)).toThrow(message);
    expect(() => addressOf(url)).not.toThrow(/s3cret/);
  });
});

it('the direct address of the database needs the other one', () => {
  const direct = 'postgres://db/sluice';
  expect(() => readConfig({ DATABASE_DIRECT_URL: direct })).toThrow(
    /DATABASE_DIRECT_URL needs DATABASE_URL too: set both, or neither/,
  );
  const both = { DATABASE_DIRECT_URL: direct, DATABASE_URL: 'postgres://pool/sluice' };
  expect(readConfig(both).DATABASE_DIRECT_URL).toBe(direct);
});
