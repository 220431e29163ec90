import { CliError, type Terminal } from '../deps.ts';
import { plain } from '../text.ts';
import {
  type ExportFields,
  findUnknownFields,
  findWrongChoices,
  unknownIn,
} from './export-fields.ts';
import { expandVariables, readYaml } from './export-spec.ts';
import { isRecord, type Json } from './json.ts';

/** An export of the file, its variables replaced. */
export interface WantedExport {
  readonly name: string;
  readonly spec: Json;
  /** Variables of its secrets that are not set: `aws_secret_access_key: … is not set`. */
  readonly missingSecrets: readonly string[];
}

export interface WantedState {
  readonly exports: readonly WantedExport[];
  /** The list of its steps, unread; null: the file does not speak of the chain. */
  readonly transformations: readonly unknown[] | null;
  /** Its faults, one line for each. */
  readonly problems: readonly string[];
}

/** Reads `exports:`, and perhaps `transformations:` with the chain. @throws CliError if it is no such file */
export async function readExportsFile(
  terminal: Terminal,
  file: string,
  fields: ExportFields,
): Promise<WantedState> {
  const read = await readYaml(terminal, file);
  if (!isRecord(read) || !Array.isArray(read.exports)) {
    throw new CliError(
      `${file} must hold a list named exports. \`sluice export\` prints such a file.`,
    );
  }
  const { notifications, transformations = null, ...others } = read;
  const problems = unknownIn(others, ['exports'], '');
  if (notifications !== undefined) {
    problems.push(
      'notifications: a file no longer has targets. Remove the list. `sluice notifications --help` has the commands for targets.',
    );
  }
  if (transformations !== null && !Array.isArray(transformations)) {
    problems.push('transformations must be a list of steps.');
  }
  const firsts = new Map<string, string>();
  const wantedExports = read.exports.flatMap((entry: unknown, n): WantedExport[] => {
    const where = `exports[${n}]`;
    if (!isRecord(entry) || typeof entry.name !== 'string' || entry.name.trim() === '') {
      problems.push(`${where}: an export needs a name.`);
      return [];
    }
    const first = firsts.get(entry.name);
    if (first !== undefined) {
      problems.push(`${where}.name: ${first} has the same name, ${plain(entry.name)}.`);
    }
    firsts.set(entry.name, where);
    const about = `${where} (${plain(entry.name)}): `;
    const unknownFields = findUnknownFields(entry, { ...fields, onlyCreate: [] }, { isNew: false });
    problems.push(...unknownFields.map((problem) => about + problem));
    problems.push(...findWrongChoices(entry, fields).map((problem) => about + problem));
    problems.push(...findPlainSecrets(entry, fields).map((problem) => about + problem));
    const { dsl_query: query, hogql_query: sameQuery } = entry;
    if (query !== undefined && sameQuery !== undefined && query !== sameQuery) {
      problems.push(
        `${about}hogql_query is another name of dsl_query, and the two differ. Write one of them.`,
      );
    }
    const missingSecrets: string[] = [];
    const spec = expandVariables(entry, terminal.env, (path, variable) => {
      const problem = `${path}: the environment variable ${variable} is not set.`;
      if (isSecret(entry, path, fields)) missingSecrets.push(problem);
      else problems.push(about + problem);
    });
    return [{ name: String((spec as Json).name), spec: spec as Json, missingSecrets }];
  });
  return {
    exports: wantedExports,
    problems,
    transformations: Array.isArray(transformations) ? transformations : null,
  };
}

function secretsOf({ destination }: Json, fields: ExportFields): ReadonlySet<string> {
  const type = isRecord(destination) ? String(destination.type) : '';
  return fields.destinations.get(type)?.secrets ?? new Set();
}

function isSecret(entry: Json, path: string, fields: ExportFields): boolean {
  const [, name] = /^destination\.config\.(\w+)$/.exec(path) ?? [];
  return name !== undefined && secretsOf(entry, fields).has(name);
}

/** A secret in a file is a secret in a repository. */
function findPlainSecrets(entry: Json, fields: ExportFields): readonly string[] {
  const { destination } = entry;
  const config = isRecord(destination) && isRecord(destination.config) ? destination.config : {};
  return [...secretsOf(entry, fields)]
    .filter((name) => {
      const value = config[name];
      return value !== undefined && value !== null && !/^\$\{[A-Za-z_]\w*\}$/.test(String(value));
    })
    .map(
      (name) =>
        `destination.config.${name} is a secret in plain text. Write \${${name.toUpperCase()}} and set that environment variable.`,
    );
}
