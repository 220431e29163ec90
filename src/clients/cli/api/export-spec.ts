import { readFile } from 'node:fs/promises';
import { parseDocument, visit } from 'yaml';
import type { Environment } from '../../../foundation/config/client-settings.ts';
import { CliError, misused, type Terminal } from '../deps.ts';
import { plain } from '../text.ts';
import {
  type ExportFields,
  findUnknownFields,
  findWrongChoices,
  unknownIn,
} from './export-fields.ts';
import { isRecord, type Json } from './json.ts';

interface SpecOptions {
  readonly file?: string;
  readonly set?: readonly string[];
}

/**
 * The fields of one export, from a file and from `--set`, which is stronger. `${NAME}` is the value of an
 * environment variable.
 *
 * @throws CliError that names each unknown field and each variable that is not set
 */
export async function readSpec(
  terminal: Terminal,
  { file, set = [] }: SpecOptions,
  fields: ExportFields,
  stored?: { readonly type: string },
): Promise<Json> {
  if (file === undefined && set.length === 0) throw misused('Nothing is set. Use --file or --set.');
  const read = file === undefined ? {} : await readYaml(terminal, file);
  if (!isRecord(read)) throw new CliError(`${file} must hold the fields of one export.`);
  const spec = set.reduce(setField, read);
  const about = stored ? { isNew: false, type: stored.type } : { isNew: true };
  const problems = [...findUnknownFields(spec, fields, about)];
  const expanded = expandVariables(spec, terminal.env, (path, name) =>
    problems.push(`${path}: the environment variable ${name} is not set.`),
  );
  if (problems.length > 0) throw new CliError(problems.join('\n'));
  return expanded as Json;
}

/** @throws CliError if the file cannot be read or is not YAML */
export async function readYaml(terminal: Terminal, file: string): Promise<unknown> {
  const text = await (file === '-' ? terminal.readInput() : readFile(file, 'utf8')).catch(
    (error: unknown) => {
      const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      throw new CliError(`${file} cannot be read (${reason}). Check the path.`);
    },
  );
  return parseYaml(text, file);
}

/** @throws CliError for text that is not YAML, and for a number that JSON would change */
function parseYaml(text: string, name: string): unknown {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error)
    throw new CliError(`${name} is not YAML: ${plain(error.message.split('\n')[0] ?? '')}`);
  visit(document, {
    Scalar(_, { value, source = '' }) {
      if (typeof value !== 'number' || isKept(value, source)) return;
      throw new CliError(
        `${name}: the number ${plain(source)} has more digits than a JSON number keeps. Put it in quotes.`,
      );
    },
  });
  return document.toJS() as unknown;
}

const isKept = (value: number, source: string): boolean =>
  Number.isInteger(value)
    ? Number.isSafeInteger(value) || String(value) === source
    : Number.isFinite(value);

/** `destination.config.prefix=events`: the value is YAML, so `null`, numbers and lists work too. */
function setField(spec: Json, assignment: string): Json {
  const [, path, text] = /^([\w.]+)=(.*)$/s.exec(assignment) ?? [];
  if (path === undefined || text === undefined) {
    throw misused(`--set takes field=value, not ${plain(assignment)}.`);
  }
  const value = parseYaml(text, `--set ${path}`);
  return withField(spec, path.split('.'), value);
}

function withField(spec: Json, [name = '', ...rest]: readonly string[], value: unknown): Json {
  const inner = spec[name];
  return {
    ...spec,
    [name]: rest.length === 0 ? value : withField(isRecord(inner) ? inner : {}, rest, value),
  };
}

const variable = /\$\$\{|\$\{([A-Za-z_]\w*)\}/g;

/**
 * A copy with `${NAME}` replaced in all its texts; `$${` is a literal `${`.
 *
 * @param onMissing called with the field and the variable that is not set; its text stays
 */
export function expandVariables(
  value: unknown,
  env: Readonly<Environment>,
  onMissing: (path: string, name: string) => void,
  path = '',
): unknown {
  if (typeof value === 'string') {
    return value.replaceAll(variable, (whole, name: string | undefined) => {
      if (name === undefined) return '${';
      const variableValue = env[name];
      if (variableValue === undefined || variableValue === '') onMissing(path, name);
      return variableValue ?? whole;
    });
  }
  if (Array.isArray(value)) {
    return value.map((item, n) => expandVariables(item, env, onMissing, `${path}[${n}]`));
  }
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      expandVariables(inner, env, onMissing, path === '' ? name : `${path}.${name}`),
    ]),
  );
}

/** The opposite, for texts that are not variables. */
const withoutVariables = (text: string): string => text.replaceAll('${', () => '$${');

/** Applies `withoutVariables` to all texts in a value. */
export function withoutVariablesIn(value: unknown): unknown {
  if (typeof value === 'string') return withoutVariables(value);
  if (Array.isArray(value)) return value.map(withoutVariablesIn);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, withoutVariablesIn(inner)]),
  );
}

/** Names of the variables in one file: two things never share a variable. */
export class VariableNames {
  readonly #taken = new Set<string>();

  /** `Events, hourly` → `EVENTS_HOURLY`, and `EVENTS_HOURLY_2` for the second one. */
  prefixOf(name: string): string {
    const words = name.toUpperCase().match(/[A-Z0-9]+/g) ?? ['EXPORT'];
    const plainName = words.join('_').replace(/^(?=\d)/, 'EXPORT_');
    let prefix = plainName;
    for (let n = 2; this.#taken.has(prefix); n += 1) prefix = `${plainName}_${n}`;
    this.#taken.add(prefix);
    return prefix;
  }
}

/** An export of the file, its variables replaced. */
export interface WantedExport {
  readonly name: string;
  readonly spec: Json;
  /** Variables of its secrets that are not set: `aws_secret_access_key: … is not set`. */
  readonly missingSecrets: readonly string[];
}

interface WantedState {
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
