import { expect, test } from 'vitest';
import { changeLines } from '../../../src/clients/console/change-lines.ts';

const line = (field: string, before: string | null, after: string | null, isSecret = false) => ({
  field,
  before,
  after,
  isSecret,
});

test('a destination is compared setting by setting', () => {
  const of = (config: object) => ({ type: 'S3', config });
  const before = of({ bucket_name: 'acme', prefix: 'a', include_events: ['x'], manifest: true });
  const after = of({
    bucket_name: 'acme',
    prefix: '',
    include_events: ['x', 'y'],
    manifest: false,
  });
  expect(changeLines([{ field: 'destination', before, after }])).toEqual([
    line('prefix', 'a', null),
    line('include events', 'x', 'x, y'),
    line('manifest', 'yes', 'no'),
  ]);
});

test('a new export has each setting that is set', () => {
  const after = { type: 'NoOp', config: { prefix: null } };
  const created = [
    { field: 'name', before: null, after: 'Events' },
    { field: 'start_at', before: null, after: '2024-03-01T00:00:00.000000Z' },
    { field: 'destination', before: null, after },
  ];
  expect(changeLines(created)).toEqual([
    line('name', null, 'Events'),
    line('start at', null, '2024-03-01T00:00:00Z'),
    line('type', null, 'NoOp'),
  ]);
});

test.each([
  [null, '********'],
  ['********', '********'],
  ['********', null],
])('of a secret it is known only that it changed: %j → %j', (before, after) => {
  expect(changeLines([{ field: 'destination secrets', before, after }])).toEqual([
    line('destination secrets', before, after, true),
  ]);
});

test('a destination that the API has cut is one line', () => {
  const cut = '{"type":"S3"… (9000 bytes)';
  const after = { type: 'S3', config: {} };
  expect(changeLines([{ field: 'destination', before: cut, after }])).toEqual([
    line('destination', cut, '{"type":"S3","config":{}}'),
  ]);
});
