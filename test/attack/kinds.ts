import { exportBody } from '../support/batch-export-bodies.ts';
import type { ApiAnswer, ApiClient } from '../support/api-client.ts';
import { fillPath, type Operation, readDocument } from '../support/openapi.ts';
import type { Attacks, Target } from './attacks.ts';

/** Of at most 1 MiB: names that do not exist, a long one, and elements of the wrong type at every level. */
const faulty: readonly string[] = [
  `{${Array.from({ length: 50_000 }, (_, n) => `"f${n}":1`).join()}}`,
  `{"${'x'.repeat(900_000)}":1}`,
  `{"destination":{"type":"S3","config":{"include_events":[${'{"a":1},'.repeat(100_000)}1]}},"filters":[${'{"y":1},'.repeat(100)}1]}`,
];

/** Every operation of the OpenAPI document, so a new route is attacked at once: its largest page, and bodies of faults. */
async function everyOperation(target: Target, owner: ApiClient): Promise<Attacks> {
  const { operations } = await readDocument(owner);
  // What deletes would end the other attacks.
  const attacked = operations.filter(({ method, scope }) => scope !== null && method !== 'DELETE');
  const list = `/api/projects/${target.projectIds[0]}/batch_exports`;
  const { body } = await owner.get(list);
  const id = body.results[0]?.id ?? '';
  const ids = {
    project_id: target.projectIds[0],
    organization_id: target.organizationId,
    ...{ id, batch_export_id: id },
  };
  const act = (client: ApiClient, { path, method }: Operation, turn: number) => {
    const filled = fillPath(path, ids);
    const raw = faulty[turn % faulty.length] ?? '{}';
    return method === 'GET'
      ? client.get(`${filled}?limit=1000&${'x'.repeat(1_000)}=1`)
      : client.send(method, filled, { raw });
  };
  return {
    'H every operation, with its largest page or a body of faults': (client, turn) => {
      const operation = attacked[turn % attacked.length];
      if (!operation) throw new Error('no operations');
      return act(client, operation, turn);
    },
  };
}

/** One for each kind of thing that a tenant stores, shows or asks for. */
export async function kindsOfAttack(target: Target, owner: ApiClient): Promise<Attacks> {
  const project = (turn: number) => `/api/projects/${target.projectIds[turn % 2]}`;
  const create = async (client: ApiClient, turn: number, body: object): Promise<ApiAnswer> => {
    const path = `${project(turn)}/batch_exports`;
    const answer = await client.post(path, exportBody({ paused: true, ...body }));
    if (answer.status !== 201) return answer;
    const preview = await client.get(`${path}/${answer.body.id}/preview`);
    await client.delete(`${path}/${answer.body.id}`);
    return preview;
  };
  return {
    ...(await everyOperation(target, owner)),
    'A as many filters as are allowed, previewed': (client, turn) =>
      create(client, turn, {
        filters: Array.from({ length: 20 }, (_, n) => ({
          ...{ key: `k${n}`, operator: 'not_icontains' },
          value: Array.from({ length: 4 }, (_, v) => `${v}${'%'.repeat(40)}`),
        })),
      }),
    'A time zones of every spelling': (client, turn) => {
      const name = [...'America/Argentina/Buenos_Aires'];
      const timezone = name
        .map((c, at) => ((turn >> (at % 16)) & 1 ? c.toUpperCase() : c))
        .join('');
      const dsl_query = `select inserted_at at time zone '${timezone}' as t from events`;
      return create(client, turn, { timezone, dsl_query });
    },
    'D disabled steps of 60 KiB, listed and moved': async (client, turn) => {
      const steps = `${project(turn)}/pipeline_transformation_configs`;
      const config = { properties: 'p'.repeat(60_000) };
      const made = await client.post(steps, { plugin: 5, order: turn, config });
      if (made.status !== 201) return client.get(`${steps}?limit=1000`);
      return client.patch(`${steps}/rearrange`, { orders: { [made.body.id]: turn + 1 } });
    },
    'D answers that an Idempotency-Key keeps': (client, turn) =>
      client.post(`${project(turn)}/batch_exports`, exportBody({ paused: true, interval: 'no' }), {
        headers: { 'idempotency-key': `${turn}-${Math.random()}` },
      }),
    'I mail to strangers': (client, turn) =>
      client.post(`/api/organizations/${target.organizationId}/notification_targets`, {
        ...{ kind: 'email', events: ['run.failed'] },
        recipients: Array.from({ length: 20 }, (_, n) => `stranger${turn}-${n}@example.com`),
      }),
  };
}
