import type { ApiClient } from '../support/api-client.ts';
import { exportBody } from '../support/batch-export-bodies.ts';
import type { Attacks, Target } from './attacks.ts';

const sources = {
  'computes as long as it may': `export function processEvent(event) {
    for (const from = Date.now(), end = 2e7; ; ) { for (let n = 0; n < end; n += 1); return event; }
  }`,
  'never ends': 'export function processEvent(event) { for (;;); }',
  leaks: `const kept = [];
    export function processEvent(event) { for (;;) kept.push('x'.repeat(1e6) + kept.length); }`,
};

const range = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

/** Attacks by an organization's own plugins: loops, memory, and much code. The second project has one in its chain. */
export async function ownPluginAttacks(
  { organizationId, projectIds }: Target,
  owner: ApiClient,
): Promise<Attacks> {
  const post = async (path: string, body: object) => {
    const answer = await owner.post(path, body);
    if (answer.status !== 201) throw new Error(`${path}: ${answer.text}`);
    return answer.body.id;
  };
  const plugins = `/api/organizations/${organizationId}/plugins`;
  const ids: number[] = [];
  for (const [name, source] of Object.entries(sources)) {
    ids.push(Number(await post(plugins, { name, source })));
  }
  const project = `/api/projects/${projectIds[1]}`;
  const configs = `${project}/pipeline_transformation_configs`;
  await post(configs, { plugin: ids[0], order: 1, enabled: true, config: {} });
  const destination = { type: 'NoOp', config: {} };
  const body = exportBody({ paused: true, destination, transformations: true });
  const chained = `${project}/batch_exports/${await post(`${project}/batch_exports`, body)}`;
  return {
    'F runs and previews through own code': (client, turn) =>
      turn % 2 === 0 ? client.post(`${chained}/backfill`, range) : client.get(`${chained}/preview`),
    'F lab with own code': (client, turn) =>
      client.post(`${project}/batch_exports/preview`, {
        trace: true,
        configs: [{ plugin: ids[turn % ids.length], config: {} }],
        rows: [{ event: 'a', properties: {} }],
      }),
    'F own code of 400 KB': async (client, turn) => {
      const filler = Array.from({ length: 20_000 }, (_, n) => `const a${n}=[{}];`).join('\n');
      const source = `${filler}\n${sources.leaks}`;
      const made = await client.post(plugins, { name: `Large ${turn}`, source });
      if (made.status === 201) await client.delete(`${plugins}/${made.body.id}`);
      return made;
    },
  };
}
