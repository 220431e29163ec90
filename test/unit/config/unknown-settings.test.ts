import { expect, test } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { findUnknownSettings } from '../../../src/foundation/config/unknown-settings.ts';

test.each([
  ['DATABSE_URL', 'DATABASE_URL'],
  ['WORKER_CONCURENCY', 'WORKER_CONCURRENCY'],
  ['database_url', 'DATABASE_URL'],
  ['SLUICE_PORT', 'PORT'],
  ['SLUICE_DATA_DIRECTORY', null],
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
