import { stringify } from 'yaml';
import { chainOfFile } from './apply-chain.ts';
import { type ExportFields, readFields } from './export-fields.ts';
import { VariableNames, withoutVariablesIn } from './export-spec.ts';
import { listExports } from './find-export.ts';
import type { Json } from './json.ts';
import type { BatchExport } from './types.ts';
import type { Called } from './verb.ts';

/** `sluice export`: prints exports and chain of the project as a file for `sluice apply`. */
export async function exportAll({ deps, api, isJson }: Called): Promise<null> {
  const fields = await readFields(api);
  const all = await listExports(api);
  const variables = new VariableNames();
  // Oldest first: a new export does not move the others in the file.
  const exports = all.toReversed().map((one) => specOf(one, fields, variables.prefixOf(one.name)));
  const transformations = await chainOfFile(api, variables);
  const state = { ...(transformations.length > 0 ? { transformations } : {}), exports };
  if (isJson) {
    deps.print(JSON.stringify(state));
    return null;
  }
  const head =
    '# For `sluice apply -f <file>`. Secrets are not shown: set the environment variables that replace them.\n';
  deps.terminal.out(head + stringify(state, { lineWidth: 0 }));
  return null;
}

/** The fields that differ from the defaults; a variable in place of each secret. */
function specOf(stored: BatchExport, fields: ExportFields, prefix: string): Json {
  const current = stored as unknown as Json;
  const { destination } = stored;
  const facts = fields.destinations.get(destination.type);
  const config = Object.entries(destination.config).filter(
    ([name, value]) =>
      value !== null && facts?.names.includes(name) && value !== facts.defaults[name],
  );
  const secrets = stored.secrets.map(({ name }) => name);
  const spec = fields.names.flatMap((name): [string, unknown][] => {
    if (name === 'destination') {
      const own = Object.fromEntries(
        config.map(([key, value]) => [key, withoutVariablesIn(value)]),
      );
      const hidden = Object.fromEntries(
        secrets.map((secret) => [secret, `\${${prefix}_${secret.toUpperCase()}}`]),
      );
      return [[name, { type: destination.type, config: { ...own, ...hidden } }]];
    }
    const value = current[name];
    return value === null || value === undefined ? [] : [[name, withoutVariablesIn(value)]];
  });
  return Object.fromEntries(spec);
}
