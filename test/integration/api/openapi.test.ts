import { readFile } from 'node:fs/promises';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Type } from 'typebox';
import { beforeAll, expect, test } from 'vitest';
import { startApiBeside, useApi } from '../../support/api-under-test.ts';
import { atNight } from '../../support/nightly.ts';
import { type ApiDocument, readDocument } from '../../support/openapi.ts';

let document: ApiDocument;

const api = useApi();
beforeAll(async () => {
  document = await readDocument(api.client);
});

/** The parts of an operation that these tests look at. */
interface Described {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: { readonly 'application/json': { readonly schema: Record<string, unknown> } };
  };
  readonly responses: Readonly<
    Record<
      string,
      { readonly headers?: object; readonly content?: Readonly<Record<string, unknown>> }
    >
  >;
}

const describedPaths = () =>
  (document.raw as unknown as { paths: Record<string, Record<string, Described>> }).paths;
const described = () =>
  Object.values(describedPaths()).flatMap((methods) => Object.values(methods));

/** Every operation of seed.md: method, and path below /api with its parameters unnamed. */
const seed = [
  ...['organizations/{}', 'projects/{}'].flatMap((owner) => [
    `GET ${owner}/batch_exports`,
    `POST ${owner}/batch_exports`,
    `GET ${owner}/batch_exports/{}`,
    `PATCH ${owner}/batch_exports/{}`,
    `DELETE ${owner}/batch_exports/{}`,
    `POST ${owner}/batch_exports/{}/backfill`,
    `POST ${owner}/batch_exports/{}/pause`,
    `POST ${owner}/batch_exports/{}/unpause`,
  ]),
  'GET projects/{}/batch_exports/{}/logs',
  'GET projects/{}/batch_exports/{}/runs',
  'GET projects/{}/batch_exports/{}/runs/{}',
  'GET projects/{}/batch_exports/{}/runs/{}/logs',
  'GET projects/{}/pipeline_transformation_configs',
  'POST projects/{}/pipeline_transformation_configs',
  'GET projects/{}/pipeline_transformation_configs/{}',
  'PATCH projects/{}/pipeline_transformation_configs/{}',
  'DELETE projects/{}/pipeline_transformation_configs/{}',
  'GET projects/{}/pipeline_transformation_configs/{}/frontend',
  'POST projects/{}/pipeline_transformation_configs/{}/job',
  'PATCH projects/{}/pipeline_transformation_configs/rearrange',
];

// A start compiles none of them: one that is not valid would fail its first request.
atNight('all schemas of bodies, queries and answers are valid', async () => {
  const beside = await startApiBeside(api, () => ({ compilesAtOnce: true }));
  await beside.stop();
  const wrong = startApiBeside(api, ({ destinations }) => ({
    compilesAtOnce: true,
    destinations: destinations.map((one) => ({
      ...one,
      configSchema: {
        ...one.configSchema,
        ...Type.Object({ wrong: Type.Unsafe({ $ref: 'none' }) }),
      },
    })),
  }));
  await expect(wrong).rejects.toThrow(/none/);
});

test('the document has every operation of the seed', () => {
  const operations = document.operations.map(
    ({ method, path }) => `${method} ${path.replace('/api/', '').replaceAll(/\{\w+\}/g, '{}')}`,
  );
  expect(operations).toEqual(expect.arrayContaining(seed));
});

test('its version is that of the package', async () => {
  const { version } = JSON.parse(
    await readFile(new URL('../../../package.json', import.meta.url), 'utf8'),
  );
  expect(document.raw).toMatchObject({ info: { version } });
});

test('it lints clean', async () => {
  const problems = await lintFromString({
    source: JSON.stringify(document.raw),
    config: await createConfig({ extends: ['recommended'] }),
  });
  const found = problems.map(
    ({ ruleId, message, location: [place] }) => `${ruleId}: ${message} ${place?.pointer ?? ''}`,
  );
  expect(found).toEqual([]);
});

test('every operation has a name of its own, a summary and the errors it can give', () => {
  const ids = document.operations.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { id, scope, statuses, method, body } of document.operations) {
    if (scope === null) continue;
    const expected = ['400', '401', '403', '404', '429', '500', '503'];
    if (method === 'POST') expected.push('409', '413', '415', '422');
    if (body) expected.push('413', '415');
    expect(statuses, id).toEqual(expect.arrayContaining(expected));
  }
});

test('every operation says more than its summary', () => {
  const bare = described().filter(
    ({ summary, description = '' }) => description.length < 20 || description === summary,
  );
  expect(bare.map(({ operationId }) => operationId)).toEqual([]);
});
test('a discriminator names the schema of each value, and no schema has a default', () => {
  const found = { mappings: [] as unknown[], defaults: [] as string[] };
  const walk = (value: unknown, place: string): void => {
    if (typeof value !== 'object' || value === null) return;
    const { discriminator, default: preset } = value as Record<string, { mapping?: unknown }>;
    if (discriminator !== undefined) found.mappings.push(discriminator.mapping);
    // A property may be named default. Generators make a field that has one required.
    if (preset !== undefined && !place.endsWith('/properties')) found.defaults.push(place);
    for (const [name, inner] of Object.entries(value)) walk(inner, `${place}/${name}`);
  };
  walk(document.raw, '');
  const mapping = Object.fromEntries(
    ['S3', 'File', 'NoOp'].map((type) => [type, `#/components/schemas/${type}`]),
  );
  expect(found.mappings.length).toBeGreaterThan(0);
  for (const each of found.mappings) expect(each).toEqual(mapping);
  expect(found.defaults).toEqual([]);
});

// A generated client asks for a body that is required: to retry a run it would need an empty one.
test('a body without a required field may be left out', () => {
  const ids = { wrong: [] as string[], optional: [] as string[] };
  for (const { operationId, requestBody } of described()) {
    if (requestBody === undefined) continue;
    const { schema } = requestBody.content['application/json'];
    const mustBe = schema.type !== 'object' || 'required' in schema;
    if (requestBody.required !== mustBe) ids.wrong.push(operationId);
    if (!requestBody.required) ids.optional.push(operationId);
  }
  expect(ids.wrong).toEqual([]);
  const { optional } = ids;
  expect(optional).toEqual(expect.arrayContaining(['retryBatchExportRun', 'unpauseBatchExport']));
  expect(optional).not.toContain('createBatchExport');
});
test('every body is described as closed', () => {
  const open = described().filter(({ requestBody }) => {
    const schema = requestBody?.content['application/json'].schema;
    return schema && schema.additionalProperties !== false;
  });
  expect(open.map(({ operationId }) => operationId)).toEqual([]);
});

test('every answer that asks for a later retry documents Retry-After', () => {
  for (const [path, operations] of Object.entries(describedPaths())) {
    for (const [method, { responses }] of Object.entries(operations)) {
      for (const status of ['429', '503']) {
        const described = responses[status]?.content?.['application/json'];
        if (described === undefined || path === '/readyz') continue;
        expect(responses[status]?.headers, `${method} ${path}`).toHaveProperty('Retry-After');
      }
    }
  }
});
type Shapes = Readonly<Record<string, object>>;

test('no schema of an answer shows a secret', () => {
  const { schemas } = (document.raw as unknown as { components: { schemas: Shapes } }).components;
  expect(JSON.stringify(schemas.BatchExport)).not.toContain('aws_secret_access_key');
  expect(JSON.stringify(schemas.S3)).toContain('"writeOnly":true');
});

test('the documentation is pages of our own, under a strict policy', async () => {
  const page = await api.withKey(null).get('/api/docs/');
  expect(page.status).toBe(200);
  expect(page.text).not.toMatch(/<script>|<style>|https?:\/\//);
  expect(page.headers.get('content-security-policy')).toContain("default-src 'self'");
  expect((await api.get('/api/docs/static/swagger-ui.css')).status).toBe(200);
  expect((await api.get('/api/docs')).status).toBeLessThan(400);
});
