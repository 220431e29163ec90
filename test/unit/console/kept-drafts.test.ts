import { expect, test } from 'vitest';
import type { Draft } from '../../../src/clients/console/form/draft.ts';
import { fieldsOf } from '../../../src/clients/console/form/fields.ts';
import type { ApiDescription } from '../../../src/clients/console/form/openapi.ts';
import { draftItem, readDraft, textOfDraft } from '../../../src/clients/console/kept-drafts.ts';

const field = { type: 'string' } as const;
const destinationOf = (type: string, properties: object) => ({
  type,
  description: '',
  fields: fieldsOf({ properties: properties as Record<string, typeof field> }),
});
const description = {
  destinations: [
    destinationOf('S3', {
      bucket_name: field,
      endpoint_url: field,
      key: { ...field, writeOnly: true },
    }),
    destinationOf('Other', { token: { ...field, writeOnly: true } }),
  ],
} as unknown as ApiDescription;

const fresh = {
  name: '',
  type: 'S3',
  values: { bucket_name: '', endpoint_url: '', key: '' },
  cleared: new Set<string>(),
  backfill: false,
} as unknown as Draft;

const typed: Draft = {
  ...fresh,
  name: 'Events',
  backfill: true,
  cleared: new Set(['key']),
  values: { bucket_name: 'acme', endpoint_url: 'https://s3', key: 'SECRET', token: 'SECRET' },
};

test('a draft survives as text, without its secrets', () => {
  const text = textOfDraft(description, typed, 'then');
  expect(text).not.toContain('SECRET');
  expect(readDraft(description, text, fresh)).toEqual({
    base: 'then',
    draft: { ...typed, values: { bucket_name: 'acme', endpoint_url: 'https://s3', key: '' } },
  });
});

test('an address with a password is not kept', () => {
  const values = { ...typed.values, endpoint_url: 'https://me:SECRET@s3' };
  expect(textOfDraft(description, { ...typed, values }, '')).not.toContain('SECRET');
});

test.each([null, '', '{', '[]', '{"base":"a"}', '{"base":"a","draft":{"type":"Gone"}}'])(
  '%j is no draft',
  (text) => expect(readDraft(description, text, fresh)).toBeNull(),
);

test('a text of another build keeps what the form still has', () => {
  const stored = {
    type: 'S3',
    name: 7,
    backfill: true,
    gone: 'x',
    values: { bucket_name: 'b', n: 1 },
  };
  const text = JSON.stringify({ base: '', draft: stored });
  expect(readDraft(description, text, fresh)?.draft).toEqual({
    ...fresh,
    backfill: true,
    values: { ...fresh.values, bucket_name: 'b' },
  });
});

test('each organization, project and export has its own', () => {
  const items = [
    ['a', '1', null],
    ['b', '1', null],
    ['a', '2', null],
    ['a', '1', 'e'],
  ] as const;
  expect(
    new Set(items.map(([organization, project, id]) => draftItem(organization, project, id))).size,
  ).toBe(4);
});
