import { expect, test } from 'vitest';
import { findStruckSettings } from '../../../src/foundation/config/struck-settings.ts';
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

test.each(['MAIL_TRUSTED_DOMAINS', 'MAX_EMAILS_PER_HOUR'])(
  '%s was a setting: one sentence names it and what to use instead',
  (name) => {
    expect(findUnknownSettings({ [name]: 'x' })).toEqual([]);
    const [sentence, ...more] = findStruckSettings({ [name]: 'x', PORT: '1' });
    expect(sentence).toMatch(
      new RegExp(`^${name} is no longer a setting and does nothing\\. .*MAIL_RECIPIENTS`),
    );
    expect(more).toEqual([]);
    expect(findStruckSettings({ [name]: '' })).toEqual([]);
  },
);
