import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import type { StatementSources } from '../service/use-cases/statements/make-statement.ts';
import { destinationOf, type Registry, registry } from './connectors.ts';

/** The names of models and places in statements. @param sourceUrl of models without their own database */
export function statementSourcesOf(
  models: readonly SourcedModel[],
  sourceUrl: string,
  known: Registry = registry,
): StatementSources {
  return {
    placeOf(type, config, prefix) {
      const { keepsFiles, place } = destinationOf(known, type);
      if (!keepsFiles) return { type, bucket: null, prefix: '' };
      const { bucket_name: bucket, endpoint_url: endpoint = null } = config;
      if (type !== 'S3') return { type, bucket: place(config), prefix };
      const isNamed = typeof endpoint === 'string' && URL.canParse(endpoint);
      const host = isNamed ? `${new URL(endpoint).host}/` : '';
      return { type, bucket: `${host}${bucket}`, prefix };
    },
    modelOf(name) {
      const model = models.find((one) => one.model.name === name);
      if (!model) return { definition: { name }, source: { server: null, database: null } };
      return { definition: model.model, source: serverOf(model.sourceUrl ?? sourceUrl) };
    },
  };
}

function serverOf(address: string) {
  if (!URL.canParse(address)) return { server: null, database: null };
  const { host, pathname } = new URL(address);
  const server = createHash('sha256').update(host).digest('hex');
  return { server, database: decodeURIComponent(pathname.slice(1)) || null };
}

/** The checkers, which are beside the build. A package without them does not start. */
export function readCheckers(): readonly (readonly [string, Buffer])[] {
  return ['sluice-check.mjs', 'sluice_check.py'].map((name) => [
    name,
    readFileSync(new URL(`../../client/check/${name}`, import.meta.url)),
  ]);
}
