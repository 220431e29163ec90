import { writeFileSync } from 'node:fs';
import { test } from 'vitest';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';

type Faults = Record<string, [bad: unknown, good: unknown]>;
const top: Faults = {
  name: ['', 'ok'],
  interval: ['fortnight', 'hour'],
  start_at: ['yesterday', null],
  end_at: [5, null],
  timezone: ['Mars/Base', 'UTC'],
  offset_hour: [30, 0],
  offset_day: [9, 0],
  dsl_query: ['SELECT FROM WHERE', null],
  heal_for_hours: [-1, 1],
  deadline_minutes: [0, null],
  deadline_at: ['25:99', null],
  warn_minutes: [-5, null],
  transformations: ['yes', false],
  paused: ['no', false],
  look_back_hours: [9999, null],
  filters: [[{ key: 1 }], null],
  unknown_field: [1, undefined],
  nmae: ['x', undefined],
};
const config: Faults = {
  bucket_name: ['s3://x/y', 'b-b-b'],
  region: ['eu west', 'eu-west-1'],
  prefix: ['a/{nope}/../b', ''],
  file_format: ['XML', 'JSONLines'],
  compression: ['rar', null],
  max_file_size_mb: [-1, null],
  aws_access_key_id: ['a b', 'AKIAIOSFODNN7EXAMPLE'],
  aws_secret_access_key: [null, 'canary-x'],
  encryption: ['foo', null],
  kms_key_id: ['k', null],
  include_events: ['a', null],
  exclude_events: [[1, ''], null],
  role_arn: ['nope', null],
  endpoint_url: ['ftp://x', null],
  acl: ['public', null],
  expected_bucket_owner: ['12', null],
  storage_class: ['GLACIER', null],
  object_tags: [['a=1', 'a=2', 'x'], null],
  decimal_columns: [['x'], null],
  partition_by: [['a', 'b', 'c', 'd'], null],
  csv_null: ['nil', 'empty'],
  table_format: ['hudi', null],
  snapshot_retention_days: [0, null],
  file_name: ['{bogus}', '{start}-{end}.{generation}-{part}'],
  infinity: ['x', 'reject'],
  on_rejected: ['x', 'warn'],
  unknown_setting: [1, undefined],
};

test('waves', async () => {
  const api = await startApiUnderTest();
  const out: unknown[] = [];
  const body = (fixed: Set<string>) => ({
    ...Object.fromEntries(Object.entries(top).map(([n, [b, g]]) => [n, fixed.has(n) ? g : b])),
    destination: {
      type: 'S3',
      config: Object.fromEntries(
        Object.entries(config).map(([n, [b, g]]) => [
          n,
          fixed.has(`destination__config__${n}`) ? g : b,
        ]),
      ),
    },
  });
  const exports = `${api.project}/batch_exports`;
  const made = (await api.client.post(exports, exportBody({ destination: s3() }))).body;
  for (const [what, send] of [
    ['create', (b: object) => api.client.post(exports, b)],
    ['patch', (b: object) => api.client.patch(`${exports}/${made.id}`, b)],
    ['put', (b: object) => api.client.send('PUT', `${exports}/${made.id}`, { body: b } as never)],
    ['test', (b: object) => api.client.post(`${exports}/test`, b)],
  ] as const) {
    const fixed = new Set<string>();
    for (let wave = 1; wave < 8; wave += 1) {
      const answer = await send(body(fixed));
      const errors = (
        (answer.body as never as { errors?: { attr: string; detail: string }[] }).errors ?? []
      ).map(({ attr, detail }) => `${attr}: ${detail}`);
      out.push({ what, wave, status: answer.status, n: errors.length, errors });
      if (answer.status < 400 || errors.length === 0) {
        out.push(answer.text.slice(0, 300));
        break;
      }
      for (const one of errors) {
        const attr = one.split(': ')[0] ?? '';
        const m =
          /^destination__config__[a-z_]+?(?=__\d|$)/.exec(attr)?.[0] ?? attr.replace(/__\d.*$/, '');
        fixed.add(m);
        fixed.add(attr);
      }
    }
  }
  writeFileSync('/tmp/d-waves.json', JSON.stringify(out, null, 1));
  await api.stop();
});
