import { expect, test } from 'vitest';
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
