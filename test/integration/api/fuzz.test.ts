import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { bodyFor, textFor } from '../../support/fuzz-values.ts';
import { isNightly } from '../../support/nightly.ts';
import { type ApiDocument, fillPath, type Operation, readDocument } from '../../support/openapi.ts';

/** `npm run test:fuzz -- --runs N` sets them. */
const runs = Number(process.env.FUZZ_RUNS ?? (isNightly ? 400 : 100));
const seed = Number(process.env.FUZZ_SEED ?? (Math.random() * 2 ** 31) | 0);
let document: ApiDocument;

const api = useApi();
beforeAll(async () => {
  document = await readDocument(api.client);
  console.log(`fuzz seed ${seed}, ${runs} requests`);
});

interface FuzzRequest {
  readonly operation: Operation;
  readonly ids: Readonly<Record<string, string>>;
  readonly query: readonly (readonly [string, string])[];
  readonly body: unknown;
}

/** Its test goes nowhere but here. */
const destination = s3({ endpoint_url: 'http://127.0.0.1:1/' });

/** Ids that exist, so that requests get past the object. */
async function existing(): Promise<Record<string, string>> {
  const made = await api.post(
    api.exports,
    exportBody({ start_at: '2024-03-01T00:00:00Z', destination }),
  );
  const config = { plugin: 2, order: 1, config: { events: 'a' } };
  const step = await api.post(`${api.project}/pipeline_transformation_configs`, config);
  return {
    organization_id: api.tenant.organizationId,
    project_id: String(api.teamId),
    batch_export_id: made.body.id,
    export: made.body.id,
    step: String(step.body.id),
  };
}

function requestArbitrary(known: Readonly<Record<string, string>>): fc.Arbitrary<FuzzRequest> {
  return fc.constantFrom(...document.operations).chain((operation) => {
    const knownId = operation.path.includes('batch_exports') ? known.export : known.step;
    const ids = Object.fromEntries(
      operation.parameters
        .filter((parameter) => parameter.in === 'path')
        .map(({ name }) => [
          name,
          fc.oneof(
            { weight: 12, arbitrary: fc.constant(known[name] ?? knownId ?? 'x') },
            { weight: 1, arbitrary: fc.uuid() },
            { weight: 1, arbitrary: textFor({}) },
          ),
        ]),
    );
    const query = operation.parameters
      .filter((parameter) => parameter.in === 'query')
      .map(({ name, schema }) =>
        fc.option(fc.tuple(fc.constant(name), textFor(schema)), { nil: undefined, freq: 2 }),
      );
    return fc.record({
      operation: fc.constant(operation),
      ids: fc.record(ids) as fc.Arbitrary<Record<string, string>>,
      query: fc
        .tuple(...query)
        .map((pairs) => pairs.filter((pair) => pair !== undefined) as [string, string][]),
      body: operation.body ? bodyFor(operation.body, document) : fc.constant(undefined),
    });
  });
}

async function check({ operation, ids, query, body }: FuzzRequest): Promise<void> {
  const path = fillPath(operation.path, mapValues(ids, encodeId));
  const search =
    query.length === 0
      ? ''
      : `?${new URLSearchParams(query.map(([a, b]): [string, string] => [a, b]))}`;
  const { status, body: answer, text } = await api.send(operation.method, path + search, { body });
  const what = `${operation.method} ${path}${search} ${JSON.stringify(body)} gave ${status} ${text}`;
  expect(status, what).toBeLessThan(500);
  // A path parameter can hold what makes it another path.
  if (Object.values(ids).some((id) => id === '' || /^\.{1,2}$/.test(id))) return;
  expect(operation.statuses, what).toContain(String(status));
  expect(document.faultOf(operation, status, status === 204 ? null : answer), what).toBeNull();
}

test('no request of any shape gets a 5xx, an undocumented status or an undocumented body', async () => {
  const batch = 25;
  for (let sent = 0; sent < runs; sent += batch) {
    // Deletes go through: each batch has something new to hit.
    const arbitrary = requestArbitrary(await existing());
    for (const request of fc.sample(arbitrary, { seed: seed + sent, numRuns: batch })) {
      await check(request);
    }
  }
}, 600_000);

/** A value that is no text is sent as bytes that are not UTF-8. */
function encodeId(id: string): string {
  return encodeURIComponent(id.replaceAll(/\p{Surrogate}/gu, '')) || '%ED%A0%80';
}

function mapValues<T, U>(values: Readonly<Record<string, T>>, map: (value: T) => U) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
}
