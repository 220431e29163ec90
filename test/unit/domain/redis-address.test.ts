import { describe, expect, it } from 'vitest';
import { ConfigError, readConfig } from '../../../src/foundation/config/config.ts';
import { parseRedisAddress } from '../../../src/foundation/domain/redis-address.ts';

function messageOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return String((error as Error).message);
  }
  return '';
}

describe('the address of Redis', () => {
  it('of one server stays as it is', () => {
    for (const url of ['redis://h', 'rediss://u:p@h:1/3?family=6', 'redis://[::1]:6379']) {
      expect(parseRedisAddress(url)).toEqual({ kind: 'server', url });
    }
  });

  it.each([
    ['redis://h/jobs', 'only the number of a database after /'],
    ['rediss://u:p@h:1/3?ssl_cert_reqs=none', 'no parameter but family'],
  ])('%s has a part that would be ignored', (url, words) => {
    expect(messageOf(() => parseRedisAddress(url))).toContain(words);
  });

  it('with several hosts, or named so, is a cluster', () => {
    expect(parseRedisAddress('redis://u:p%40@h1:7000,h2,[::1]:7002')).toEqual({
      kind: 'cluster',
      hosts: [
        { host: 'h1', port: 7000 },
        { host: 'h2', port: 6379 },
        { host: '::1', port: 7002 },
      ],
      login: { username: 'u', password: 'p@' },
      tls: false,
    });
    expect(parseRedisAddress('rediss+cluster://:p@h/0')).toEqual({
      kind: 'cluster',
      hosts: [{ host: 'h', port: 6379 }],
      login: { password: 'p' },
      tls: true,
    });
  });

  it('of sentinels names the master, and has a login for each kind of server', () => {
    expect(parseRedisAddress('redis+sentinel://h1,h2:1/main')).toMatchObject({
      kind: 'sentinel',
      hosts: [
        { host: 'h1', port: 26_379 },
        { host: 'h2', port: 1 },
      ],
      master: 'main',
      database: 0,
      login: {},
      sentinelLogin: {},
      tls: false,
    });
    expect(
      parseRedisAddress(
        'rediss+sentinel://u:p@h1:1/my%20main/5?sentinel_username=s&sentinel_password=q%26',
      ),
    ).toMatchObject({
      master: 'my main',
      database: 5,
      login: { username: 'u', password: 'p' },
      sentinelLogin: { username: 's', password: 'q&' },
      tls: true,
    });
  });

  it.each([
    ['http://h', /must be redis:\/\//],
    ['redis://h1,h2/3', /must have no \/3 .* database 0 only/],
    ['redis://h1,h2?family=6', /no parameters after \?/],
    ['redis://h1,', /host 2 is none/],
    ['redis://h1:0,h2', /host 1 is none/],
    ['redis+sentinel://h1:1', /must name the sentinels' master .*mymaster/],
    ['redis+sentinel://h1/main/x', /nothing but the number of a database/],
    ['redis+sentinel://h1/main?password=1', /no parameters but sentinel_username/],
    ['redis+sentinel://u:%zz@h1/main', /% .* as %25/],
  ])('%s is refused, with the remedy', (url, message) => {
    expect(() => parseRedisAddress(url)).toThrow(message);
    expect(() => readConfig({ REDIS_URL: url })).toThrow(ConfigError);
    expect(() => readConfig({ REDIS_URL: url })).toThrow(/REDIS_URL must/);
  });

  it('is in no message with its password', () => {
    for (const url of [
      'redis://u:s3cret@h1:x,h2',
      'redis+sentinel://u:s3cret@h1',
      'x://u:s3cret@h',
    ])
      expect(messageOf(() => parseRedisAddress(url))).toMatch(/^must ((?!s3cret).)*$/);
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
