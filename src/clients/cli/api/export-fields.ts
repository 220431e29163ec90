import { nearestName } from '../../../foundation/domain/nearest-name.ts';
import { remedyOfStruck } from '../../../foundation/domain/struck.ts';
import { CliError } from '../deps.ts';
import { plain } from '../text.ts';
import type { Api } from './api.ts';
import { at, isRecord, type Json } from './json.ts';

/** Which fields an export has at this service: its OpenAPI document says so, not this build. */
export interface ExportFields {
  /** Fields that a file may set. */
  readonly names: readonly string[];
  /** Besides these, create takes them. */
  readonly onlyCreate: readonly string[];
  readonly times: ReadonlySet<string>;
  /** The choices of each field with a list of them. */
  readonly choices: Choices;
  readonly destinations: ReadonlyMap<string, DestinationFields>;
}

type Choices = ReadonlyMap<string, readonly unknown[]>;

interface DestinationFields {
  readonly names: readonly string[];
  readonly secrets: ReadonlySet<string>;
  readonly choices: Choices;
  readonly defaults: Readonly<Json>;
  /** Properties that are stored below a folder of the project: `files` as `7/files`. */
  readonly belowProject: ReadonlySet<string>;
}

const exportsPath = '/api/projects/{project_id}/batch_exports';
const bodySchema = ['requestBody', 'content', 'application/json', 'schema'];
/** Fields of the API's bodies that describe no state: the path names the project, a pause its own time. */
const leftOut = ['team_id', 'last_paused_at'];

/** @throws CliError if the service does not describe its exports */
export async function readFields(api: Api): Promise<ExportFields> {
  const document = await api.send('get', '/api/openapi.json');
  const change = at(document, 'paths', `${exportsPath}/{id}`, 'patch', ...bodySchema, 'properties');
  const create = at(document, 'paths', exportsPath, 'post', ...bodySchema, 'properties');
  if (!isRecord(change) || !isRecord(create)) {
    throw new CliError(`${api.url} does not describe its exports. Update the service.`);
  }
  const names = Object.keys(change).filter((name) => !leftOut.includes(name));
  return {
    names,
    onlyCreate: Object.keys(create).filter((name) => ![...leftOut, ...names].includes(name)),
    choices: choicesOf(change),
    times: new Set(names.filter((name) => at(change[name], 'format') === 'date-time')),
    destinations: new Map(destinationsOf(document, create.destination)),
  };
}

/** The fields, with the models of the installation: the document has none. */
export async function readFieldsAndModels(api: Api): Promise<ExportFields> {
  const [fields, { models }] = await Promise.all([
    readFields(api),
    api.call('get', '/api/capabilities'),
  ]);
  const names = models.map(({ name }) => name);
  return { ...fields, choices: new Map([...fields.choices, ['model', names]]) };
}

function destinationsOf(document: unknown, schema: unknown): [string, DestinationFields][] {
  const branches = at(schema, 'oneOf');
  return (Array.isArray(branches) ? branches : []).flatMap((branch: unknown) => {
    const named = resolve(document, branch);
    const type =
      at(named, 'properties', 'type', 'enum', '0') ?? at(named, 'properties', 'type', 'const');
    const config = at(resolve(document, at(named, 'properties', 'config')), 'properties');
    if (typeof type !== 'string' || !isRecord(config)) return [];
    const having = (keyword: string) =>
      Object.entries(config).filter(([, property]) => at(property, keyword) !== undefined);
    const fields = {
      names: Object.keys(config),
      secrets: new Set(having('writeOnly').map(([name]) => name)),
      choices: choicesOf(config),
      belowProject: new Set(having('x-below-project').map(([name]) => name)),
      defaults: Object.fromEntries(
        having('x-default').map(([name, property]) => [name, at(property, 'x-default')]),
      ),
    };
    return [[type, fields] as [string, DestinationFields]];
  });
}

function choicesOf(properties: Json): Choices {
  const all = Object.entries(properties).flatMap(([name, schema]): [string, unknown[]][] => {
    const branches = at(schema, 'anyOf');
    // A branch without a list of choices takes anything.
    const lists = (Array.isArray(branches) ? branches : [schema]).map((branch: unknown) =>
      at(branch, 'type') === 'null' ? [null] : at(branch, 'enum'),
    );
    return lists.every(Array.isArray) ? [[name, lists.flat()]] : [];
  });
  return new Map(all);
}

function resolve(document: unknown, schema: unknown): unknown {
  const reference = at(schema, '$ref');
  return typeof reference === 'string'
    ? at(document, ...reference.replace('#/', '').split('/'))
    : schema;
}

/** Faults of names, one line each. @param type the type of the destination if `spec` does not say it */
export function findUnknownFields(
  spec: Json,
  fields: ExportFields,
  { isNew, type }: { readonly isNew: boolean; readonly type?: string },
): readonly string[] {
  const names = isNew ? [...fields.names, ...fields.onlyCreate] : fields.names;
  const problems = unknownIn(spec, names, '');
  const { destination } = spec;
  if (destination === undefined) return problems;
  if (!isRecord(destination)) return [...problems, 'destination must have type and config.'];
  problems.push(...unknownIn(destination, ['type', 'config'], 'destination.'));
  const { config = {}, type: own = type } = destination;
  const destinationFields = fields.destinations.get(String(own));
  if (!destinationFields) {
    const types = [...fields.destinations.keys()].join(', ');
    problems.push(`destination.type must be one of ${types}.`);
  } else if (isRecord(config)) {
    problems.push(...unknownIn(config, destinationFields.names, 'destination.config.'));
  } else {
    problems.push('destination.config must have fields.');
  }
  return problems;
}

/** One in three letters of a field may be wrong. */
const lettersPerMistake = 3;

export function unknownIn(given: Json, names: readonly string[], prefix: string): string[] {
  return Object.keys(given)
    .filter((name) => !names.includes(name))
    .map((name) => {
      const struck = remedyOfStruck(name);
      if (struck !== undefined) return `${prefix}${name}: ${struck}`;
      const nearest = nearestName(name, names, lettersPerMistake);
      const others = names.length === 0 ? 'Remove it.' : `Use ${names.join(', ')}.`;
      const remedy = nearest === null ? others : `Did you mean ${nearest}?`;
      return `${prefix}${plain(name)} is not a field. ${remedy}`;
    });
}

/** Values that their fields do not have among their choices, one line for each. A value with a variable is not looked at. */
export function findWrongChoices(spec: Json, fields: ExportFields): readonly string[] {
  const { destination } = spec;
  const config = isRecord(destination) && isRecord(destination.config) ? destination.config : {};
  const type = isRecord(destination) ? String(destination.type) : '';
  const ofConfig = fields.destinations.get(type)?.choices ?? new Map();
  return [
    ...wrongIn(spec, fields.choices, ''),
    ...wrongIn(config, ofConfig, 'destination.config.'),
  ];
}

function wrongIn(given: Json, choices: Choices, prefix: string): string[] {
  return Object.entries(given).flatMap(([name, value]) => {
    const allowed = choices.get(name);
    const isOpen = value === null || (typeof value === 'string' && value.includes('${'));
    if (!allowed || isOpen || allowed.includes(value)) return [];
    const names = allowed.filter((one) => one !== null).join(', ');
    return [`${prefix}${name} must be one of ${names}.`];
  });
}
