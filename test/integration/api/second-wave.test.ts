import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { createAjv } from '../../../src/service/api/validation/validator.ts';
import type { ApiAnswer } from '../../support/api-client.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { type JsonSchema, readDocument } from '../../support/openapi.ts';

/** Bodies with many faults of all kinds, made from the schema: what is named is corrected, and nothing else may be wrong then. */

type Json = Record<string, unknown>;
interface Body extends Json {
  destination: unknown;
}

const base = (): Body =>
  exportBody({
    ...{ interval: 'week', offset_day: 1, offset_hour: 3, timezone: 'Europe/Berlin' },
    ...{ start_at: '2024-03-01T00:00:00Z', end_at: '2999-03-01T00:00:00Z' },
    ...{ deadline_minutes: 60, warn_minutes: 5, model: 'events', paused: true },
    dsl_query: 'select event from events',
  });

/** Values that are wrong for most schemas; which ones, the schema says. */
const odd = [
  ...[5, -1, 1e9, 1.5, true, 'odd value', '', ' ', 'x'.repeat(5_000), [], [5], [''], {}, null],
];

/** What only rules find. */
const ruleFaults: Readonly<Record<string, readonly unknown[]>> = {
  offset_day: [9],
  offset_hour: [24, -1],
  timezone: ['Mars/Olympus'],
  end_at: ['2020-01-01T00:00:00Z'],
  deadline_at: ['08:00'],
  dsl_query: ['drop table events', 'select colour from events', 'select event, from events'],
  hogql_query: ['select uuid from events'],
  filters: [[{ key: 'x', type: 'none', operator: 'exact', value: 'a' }]],
  destination: [{}, { type: 'S4', config: s3().config }, { config: s3({ prefix: '{' }).config }],
  colour: ['red'],
  success_file: [true],
};
const configFaults: Readonly<Record<string, readonly unknown[]>> = {
  bucket_name: ['UPPER', '-x'],
  aws_access_key_id: [undefined, 'with space'],
  aws_secret_access_key: [undefined, 'ümlaut'],
  endpoint_url: ['nonsense', 'ftp://x', 'https://a:b@example.com'],
  kms_key_id: ['alias/x'],
  storage_class: ['GLACIER'],
  object_tags: [['a=1', 'a=2'], ['no tag']],
  prefix: ['{', '{colour}', '../x'],
  file_name: ['x', '{colour}'],
  compression: ['snappy', 'zip'],
  partition_by: [['day(']],
  decimal_columns: [['amount'], ['amount decimal(50,2)']],
  csv_delimiter: ['tab'],
  time_as: ['text'],
  snapshot_retention_days: [7],
  table_format: ['iceberg', 'icebrg'],
  colour: ['red'],
};
let faults: readonly (readonly [field: string, value: unknown])[];

const api = useApi();
beforeAll(async () => {
  await ensureEventsTable(api.databaseUrl);
  const { operations, raw } = await readDocument(api.client);
  const schemas = (raw as unknown as { components: { schemas: Record<string, JsonSchema> } })
    .components.schemas;
  const body = operations.find(({ id }) => id === 'createBatchExport')?.body ?? {};
  const config = schemas.S3?.properties?.config ?? {};
  faults = [...faultsOf(body, ruleFaults), ...faultsOf(config, configFaults, 'config.')];
  expect(faults.length).toBeGreaterThan(200);
});

function faultsOf({ properties = {} }: JsonSchema, rules: typeof ruleFaults, prefix = '') {
  const ofSchema = Object.entries(properties)
    .filter(([name]) => !['destination', 'team_id', 'unique_name'].includes(name))
    .flatMap(([name, schema]) => {
      const validate = createAjv().compile({ ...schema, $ref: undefined, items: undefined });
      const refused = '$ref' in schema ? [] : odd.filter((value) => !validate(value));
      return refused.map((value) => [prefix + name, value] as const);
    });
  const ofRules = Object.entries(rules).flatMap(([name, values]) =>
    values.map((value) => [prefix + name, value] as const),
  );
  return [...ofSchema, ...ofRules];
}

function withFaults(chosen: typeof faults): Body {
  const body = structuredClone(base());
  for (const [field, value] of chosen) {
    const [, setting] = /^config\.(.*)$/.exec(field) ?? [];
    if (setting === undefined) body[field] = value;
  }
  for (const [field, value] of chosen) {
    const [, setting] = /^config\.(.*)$/.exec(field) ?? [];
    const { config } = body.destination as { config?: Json };
    if (setting !== undefined && typeof config === 'object') config[setting] = value;
  }
  return JSON.parse(JSON.stringify(body)) as Body;
}

/** Corrects what an answer names, and nothing else. */
function corrected(body: Body, { body: answer }: ApiAnswer): Body {
  const next = structuredClone(body);
  const sound = base();
  for (const { attr } of answer.errors) {
    const [top = '', part, name] = String(attr).split('__');
    const destination = next.destination as { type?: unknown; config?: Json };
    const good = sound.destination as { type: unknown; config: Json };
    if (name !== undefined && part === 'config' && top === 'destination') {
      const { config = {} } = destination;
      if (name in good.config) config[name] = good.config[name];
      else delete config[name];
    } else if (part === 'config') destination.config = good.config;
    else if (part === 'type' && top === 'destination') destination.type = good.type;
    else if (top in sound) next[top] = sound[top];
    else delete next[top];
  }
  return next;
}

const post = (body: Body) => api.post(api.exports, body);

test('a body without faults is created', async () => {
  const { status, text } = await post(base());
  expect(status, text).toBe(201);
});

test('a body that is corrected as its answer says has no second wave', async () => {
  const many = fc.shuffledSubarray([...faults], { minLength: 2, maxLength: 14 });
  await fc.assert(
    fc.asyncProperty(many, async (chosen) => {
      const body = withFaults(chosen);
      const first = await post(body);
      expect(first.status, first.text).toBe(400);
      const second = await post(corrected(body, first));
      const left = second.body.errors?.map(({ attr, detail }) => `${attr}: ${detail}`);
      expect([second.status, left ?? []]).toEqual([201, []]);
    }),
    { numRuns: 400, seed: 57 },
  );
}, 120_000);

test('no answer shows a regular expression, or says a sentence twice', async () => {
  for (const fault of faults) {
    const { body } = await post(withFaults([fault]));
    for (const { detail } of body.errors ?? []) {
      expect(detail).not.toMatch(/[\^$]$|\[[^\]]*-[^\]]*\]|pattern/);
      const sentences = detail.split(/(?<=\.) /);
      expect(new Set(sentences).size).toBe(sentences.length);
    }
  }
}, 120_000);
