import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readClientSettings } from '../../../src/foundation/config/client-settings.ts';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { settings } from '../../../src/foundation/config/settings.ts';
import { findUnknownSettings } from '../../../src/foundation/config/unknown-settings.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const folder = folderOfTests();

function fileOf(text: string): string {
  const file = path.join(folder, String(Math.random()));
  writeFileSync(file, text);
  return file;
}

const examples: Readonly<Record<string, string>> = {
  DATABASE_URL: 'postgres://u:p@host/db',
  DATABASE_DIRECT_URL: 'postgres://u:p@direct/db',
  SOURCE_DATABASE_URL: 'postgres://u:p@source/db',
  SOURCE_PRIMARY_URL: 'postgres://u:p@primary/db',
  REDIS_URL: 'redis://:p@host:6379',
  SMTP_URL: 'smtp://u:p@host:587',
  HTTP_PROXY: 'http://u:p@proxy:3128',
  HTTPS_PROXY: 'http://u:p@proxy:3128',
};
const secrets = Object.entries(settings).filter(([, { secret }]) => secret);

test('each secret setting can be in a file, without the line breaks at its end', () => {
  expect(secrets.length).toBeGreaterThan(8);
  const texts = secrets.map(([name]) => [name, examples[name] ?? 'k1:secret'] as const);
  const inFiles = texts.map(([name, text]) => [`${name}_FILE`, fileOf(`${text}\r\n\n`)]);
  expect(readConfig(Object.fromEntries(inFiles))).toEqual(readConfig(Object.fromEntries(texts)));
  expect(findUnknownSettings(Object.fromEntries(inFiles))).toEqual([]);
  expect(readClientSettings({ SLUICE_KEY_FILE: fileOf('slc_x\n') }).key).toBe('slc_x');
});

test.each([
  [
    'both are set',
    { DATABASE_URL: 'postgres://a/b', DATABASE_URL_FILE: 'x' },
    'DATABASE_URL and DATABASE_URL_FILE are both set',
  ],
  [
    'the file is missing',
    { DATABASE_URL_FILE: '/no/such' },
    'DATABASE_URL cannot be read: DATABASE_URL_FILE names /no/such (ENOENT)',
  ],
  ['it is a folder', { REDIS_URL_FILE: folder }, '(EISDIR)'],
  ['it is empty', { DATABASE_URL_FILE: fileOf('\n') }, 'is empty'],
])('a secret in a file is refused if %s', (_what, env, text) => {
  expect(() => readConfig(env)).toThrow(text);
});

test('a variable that is empty is not set, beside a file', () => {
  const file = fileOf('postgres://u:p@host/db');
  expect(readConfig({ DATABASE_URL: '', DATABASE_URL_FILE: file }).DATABASE_URL).toMatch(/host/);
  expect(readConfig({ DATABASE_URL_FILE: '' }).DATABASE_URL).toBeNull();
});

test('a file of a setting that is no secret is reported', () => {
  expect(findUnknownSettings({ WORKER_PORT_FILE: 'x' })).toEqual([
    { name: 'WORKER_PORT_FILE', nearest: 'WORKER_PORT' },
  ]);
});

test.each([
  [{ WORKER_PORT: '94610' }, /WORKER_PORT must be a whole number from 0 to 65535/],
  [{ METRICS_PORT: 'x' }, /METRICS_PORT must be/],
  [{ METRICS_PORT: '9464', WORKER_PORT: '9464' }, /WORKER_PORT is the same as METRICS_PORT/],
  [{ PORT: '9464', METRICS_PORT: '9464' }, /METRICS_PORT is the same as PORT/],
])('ports that cannot be served are refused: %s', (env, text) => {
  expect(() => readConfig(env)).toThrow(text);
});

test.each([
  ['ALLOWED_PRIVATE_ENDPOINTS', 'http://minio:9000', '"http://minio:9000"'],
  ['ALLOWED_PRIVATE_ENDPOINTS', '*', '"*"'],
  ['ALLOWED_PRIVATE_ENDPOINTS', 'minio 10.0.0.1', '"minio 10.0.0.1"'],
  ['MAIL_RECIPIENTS', '@example.com', '"@example.com"'],
  ['MAIL_RECIPIENTS', 'a@example.com;b@example.com', 'must be a list of addresses and domains'],
  ['STS_ENDPOINT', 'sts.example.com', 'an http:// or https:// address'],
])('%s refuses %s, which could have no effect', (name, value, words) => {
  expect(() => readConfig({ [name]: value })).toThrow(words);
});

test('hosts of private endpoints: names, addresses, a domain, ports', () => {
  const hosts = ['minio', '10.0.0.7:9000', '[::1]', '[fd00::1]:9000', '*.internal:9000', 'a_b.c-d'];
  const config = readConfig({ ALLOWED_PRIVATE_ENDPOINTS: `${hosts.join(' , ')},` });
  expect(config.ALLOWED_PRIVATE_ENDPOINTS).toEqual(hosts);
});

test.each([
  ['DATABSE_URL', 'DATABASE_URL'],
  ['WORKER_CONCURENCY', 'WORKER_CONCURRENCY'],
  ['database_url', 'DATABASE_URL'],
  ['SLUICE_PORT', 'PORT'],
  ['SLUICE_NONSENSE', null],
])('%s is reported, and %s is named', (name, nearest) => {
  expect(findUnknownSettings({ [name]: 'x' })).toEqual([{ name, nearest }]);
});

test.each(['HOME', 'HOSTNAME', 'DATABASE_URL', 'SLUICE_URL', 'SLUICE_KEY', 'AWS_REGION', 'LC_ALL'])(
  '%s is not reported',
  (name) => {
    expect(findUnknownSettings({ [name]: 'x' })).toEqual([]);
  },
);

test.each([
  ['MAIL_TRUSTED_DOMAINS', 'MAIL_RECIPIENTS'],
  ['MAX_EMAILS_PER_HOUR', 'MAIL_RECIPIENTS'],
  ['RATE_LIMIT_PER_HOUR', 'RATE_LIMIT_PER_MINUTE'],
  ['UPLOAD_MIN_KIB_PER_SECOND', 'UPLOAD_STALL_SECONDS'],
  ['ALLOW_PRIVILEGED_SOURCE', 'NODE_ENV'],
  ['MAX_RUNS_PER_EXPORT', 'BACKFILL_CONCURRENCY'],
  ['MAX_SNAPSHOT_HOURS', '24 hours'],
  ['SOURCE_LOCK_WAIT_SECONDS', '5 seconds'],
])('%s was a setting: a start with it is refused by its name, with the remedy', (name, remedy) => {
  expect(findUnknownSettings({ [name]: 'x' })).toEqual([]);
  expect(() => readConfig({ [name]: 'x', PORT: '1' })).toThrow(
    new RegExp(`\n  ${name} is no longer a setting: remove it\\. .*${remedy}[^\n]*$`),
  );
  expect(() => readConfig({ [name]: '' })).not.toThrow();
});
