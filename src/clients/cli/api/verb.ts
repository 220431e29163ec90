import { Argument, type Command, Option } from 'commander';
import { confirm, print, recordLines, recordsLines } from '../answer.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { type CliDeps, CliError } from '../deps.ts';
import { type Cell, type Paint, paintFor, tableLines } from '../text.ts';
import { type Api, type CallOptions, readAll, readNewest } from './api.ts';
import { findExport } from './find-export.ts';
import { isRecord, type Json } from './json.ts';
import { type ApiOptions, openApi, withApi } from './open-api.ts';
import type { AnswerOf, BatchExport, Method, PathOf } from './types.ts';

/** A field of a request as a person writes it, such as `--name <name>` or `<id>`; its meaning; its reader. */
export type Field = readonly [flags: string, about: string, more?: Reader | FieldOptions];

type Reader = (text: string, before?: never) => unknown;

interface FieldOptions {
  readonly read?: Reader;
  readonly choices?: readonly string[];
  readonly isRequired?: true;
  readonly initial?: unknown;
}

export interface Called<Answer = unknown> {
  readonly deps: CliDeps;
  readonly api: Api;
  readonly paint: Paint;
  /** By name: the fields of the request, and the flags. */
  readonly given: Json;
  /** The export of an argument `theExport`. @throws Error if the verb has none */
  readonly batchExport: BatchExport;
  readonly isJson: boolean;
  /** Does the request of the verb, with these fields besides those that were given. */
  send(more?: Json, options?: CallOptions): Promise<Answer>;
}

/** One request, and what is printed of its answer. */
interface Verb<Answer> {
  readonly method: Method;
  readonly path: string;
  readonly more: More<Answer>;
}

/** By their words, such as `organizations create`. */
export type Verbs = Readonly<Record<string, Verb<unknown>>>;

export interface More<Answer> {
  readonly about: string;
  /** Arguments by the fields that they set. A field of the path is sent in it, the others in the query or the body. */
  readonly args?: Readonly<Record<string, Field>>;
  /** Options by the fields that they set. */
  readonly options?: Readonly<Record<string, Field>>;
  /** Options that are not sent. `yes` answers `confirm`. */
  readonly flags?: Readonly<Record<string, Field>>;
  readonly sends?: Json;
  /** The form in which a person writes fields that no option has the name of, for messages. */
  readonly writtenAs?: Readonly<Record<string, string>>;
  /** The meaning of a 404; `{id}` is the value of a field. */
  readonly notFound?: string;
  readonly patienceMs?: number;
  readonly isDefault?: true;
  /** All items of a list with offsets, or the newest of a cursor list, at most `limit`. */
  readonly list?: 'all' | 'newest';
  at?(path: string, given: Json): string;
  /** Replaces the fields that were given. */
  prepare?(called: Called<Answer>): Json | Promise<Json>;
  confirm?(called: Called<Answer>): string | Promise<string>;
  /** Several requests instead of one; null: all was done and printed. */
  run?(called: Called<Answer>): Promise<Answer | null>;
  /** Default: the results of a list, else the answer. */
  json?(answer: Answer, called: Called<Answer>): unknown;
  /** For people. Default: a line per field, or a table of the results. */
  lines?(answer: Answer, called: Called<Answer>): readonly string[];
  /** Why the command fails after it has printed; null: it does not. */
  failure?(answer: Answer): string | null;
}

const verbOf =
  <M extends Method>(method: M) =>
  <Path extends PathOf<M>>(path: Path, more: More<AnswerOf<M, Path>>): Verb<unknown> => {
    return { method, path, more };
  };

export const get = verbOf('get');
export const post = verbOf('post');
export const patch = verbOf('patch');
export const remove = verbOf('delete');

/** A verb that calls no API: it runs on the machine of the service. */
export const here = <Answer>(
  more: More<Answer> & Required<Pick<More<Answer>, 'run'>>,
): Verb<unknown> => {
  return { method: 'get', path: '', more: more as More<unknown> };
};

/** A verb of a path that is not in the OpenAPI document. */
export const hidden = (method: Method, path: string, more: More<Json>): Verb<unknown> => {
  return { method, path, more };
};

/** A verb whose answer is the items of several pages. */
export const list = <Path extends PathOf<'get'>>(
  path: Path,
  more: More<ItemsOf<AnswerOf<'get', Path>>> & { readonly list: 'all' | 'newest' },
): Verb<unknown> => {
  return { method: 'get', path, more };
};

type ItemsOf<Page> = Page extends { readonly results: infer Items } ? Items : never;

/** An argument whose field is the id of an export. */
export const theExport: Field = ['<export>', 'name or id of the export'];
export const maybeExport: Field = [
  '[export]',
  `${theExport[1]}; with --file or --set, a change of it that is not saved`,
];

export const missingRows: Field = [
  '--missing-rows <what>',
  'keep or drop delivered rows that the source no longer has (default: keep, the run fails)',
  { choices: ['keep', 'drop'] },
];
export const yes: Field = ['--yes', 'do not ask'];

/** @param groups what the first words of verbs mean */
export function registerVerbs(
  program: Command,
  deps: CliDeps,
  groups: Readonly<Record<string, string>>,
  verbs: Verbs,
): void {
  for (const [whole, one] of Object.entries(verbs)) {
    const words = whole.split(' ');
    const name = words.pop() ?? '';
    const [group] = words;
    const parent = group === undefined ? program : groupOf(program, group, groups[group] ?? '');
    registerVerb(parent.command(name, { isDefault: one.more.isDefault ?? false }), deps, one);
  }
}

/** The command with this name, which has commands of its own. */
export function groupOf(program: Command, name: string, about = ''): Command {
  const group = program.commands.find((command) => command.name() === name);
  return group ?? program.command(name).description(about);
}

function registerVerb(command: Command, deps: CliDeps, one: Verb<unknown>): void {
  const { about, args = {}, options = {}, flags = {} } = one.more;
  command.description(about);
  for (const field of Object.values(args)) command.addArgument(argumentOf(field));
  const named = Object.entries({ ...options, ...flags }).map(
    ([name, field]) => [name, optionOf(field)] as const,
  );
  for (const [, option] of named) command.addOption(option);
  if (one.path === '') command.option('--json', 'print JSON');
  else withApi(command, { hasProject: !named.some(([, { long }]) => long === '--project') });
  command.action(async (...values: readonly unknown[]) => {
    const parsed = command.opts<Json>();
    const given = {
      ...Object.fromEntries(Object.keys(args).map((name, index) => [name, values[index]])),
      ...Object.fromEntries(
        named.map(([name, option]) => [name, parsed[option.attributeName()]] as const),
      ),
    };
    const { url, json, project } = parsed as ApiOptions;
    const options = { ...(url && { url }), ...(json && { json }) };
    const isOne = typeof project === 'string';
    await runVerb(deps, one, given, isOne ? { ...options, project } : options);
  });
}

const optionsOf = (more: Field[2]): FieldOptions =>
  typeof more === 'function' ? { read: more } : (more ?? {});

function argumentOf([name, about, more]: Field): Argument {
  const { read } = optionsOf(more);
  const argument = new Argument(name, about);
  return read ? argument.argParser(read as (text: string) => unknown) : argument;
}

function optionOf([flags, about, more]: Field): Option {
  const { read, choices, isRequired = false, initial } = optionsOf(more);
  const option = new Option(flags, about).makeOptionMandatory(isRequired);
  if (initial !== undefined) option.default(initial);
  if (choices) option.choices(choices);
  return read ? option.argParser(read as (text: string) => unknown) : option;
}

async function runVerb(
  deps: CliDeps,
  one: Verb<unknown>,
  written: Json,
  options: ApiOptions,
): Promise<void> {
  const { more } = one;
  let opened: Api | null = null;
  const api = () => (opened ??= openApi(deps, options));
  // A wrong address or a missing key comes before every question.
  if (!more.run) api();
  const [name, theirs] = exportOf(more, written);
  const batchExport = theirs === undefined ? null : await findExport(api(), theirs);
  const given = { ...written, ...(batchExport && name && { [name]: batchExport.id }) };
  const calledWith = (fields: Json): Called => ({
    ...{ deps, given: fields, paint: paintFor(deps.terminal), isJson: options.json ?? false },
    get api() {
      return api();
    },
    get batchExport() {
      if (!batchExport) throw new Error(`${one.path} has no export`);
      return batchExport;
    },
    send: (extra = {}, call = {}) => request(one, api(), { ...fields, ...extra }, call),
  });
  const called = calledWith((await more.prepare?.(calledWith(given))) ?? given);
  if (more.confirm) {
    await confirm(deps.terminal, await more.confirm(called), called.given.yes === true);
  }
  const answer = await (more.run ? more.run(called) : called.send());
  if (answer === null && more.run) return;
  printAnswer(deps, options, one, answer, called);
  const failure = more.failure?.(answer) ?? null;
  if (failure !== null) throw new CliError(failure);
}

/** The field of the export, and what a person wrote for it. */
function exportOf({ args = {} }: More<unknown>, given: Json): [string, string | undefined] | [] {
  const [name] = Object.entries(args).find(([, field]) => isExport(field)) ?? [];
  return name === undefined ? [] : [name, given[name] as string | undefined];
}

const isExport = (field: Field): boolean => field === theExport || field === maybeExport;

async function request(
  { method, path, more }: Verb<unknown>,
  api: Api,
  all: Json,
  options: CallOptions,
): Promise<unknown> {
  const { args = {}, flags = {}, sends = {}, patienceMs } = more;
  const address = more.at?.(path, all) ?? path;
  const sent = Object.entries({ ...sends, ...all }).filter(
    ([name, value]) =>
      value !== undefined && !Object.hasOwn(flags, name) && !address.includes(`{${name}}`),
  );
  const call = (query: Json) =>
    api.send(method, address, {
      ...{
        path: all,
        notFound: more.notFound,
        optionOf: { ...writtenAs({ ...args, ...more.options }), ...more.writtenAs },
      },
      ...(patienceMs !== undefined && { patienceMs }),
      ...options,
      ...(method === 'get' ? { query } : sent.length > 0 && { body: Object.fromEntries(sent) }),
    }) as Promise<never>;
  const query = Object.fromEntries(sent);
  if (more.list === 'newest') {
    return readNewest(Number(all.limit), (page) => call({ ...query, ...page }));
  }
  if (more.list === 'all') return readAll((offset) => call({ ...query, limit: 1_000, offset }));
  return call(query);
}

/** Each field as a person writes it: `--name`, or `<id>`. */
const writtenAs = (fields: Readonly<Record<string, Field>>) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, [flags]]) => [
      name,
      flags.startsWith('-') ? (/--[\w-]+/.exec(flags)?.[0] ?? flags) : flags,
    ]),
  );

function printAnswer(
  deps: CliDeps,
  options: ApiOptions,
  { more }: Verb<unknown>,
  answer: unknown,
  called: Called,
): void {
  const { json, lines } = more;
  const results = isRecord(answer) && Array.isArray(answer.results) ? answer.results : answer;
  const document = json ? json(answer, called) : inSnakeCaseAll(results);
  print(deps, options, document, () => {
    if (lines) return lines(answer, called);
    return Array.isArray(document) ? recordsLines(document) : recordLines(document as object);
  });
}

const inSnakeCaseAll = (value: unknown): unknown =>
  Array.isArray(value) ? value.map(inSnakeCase) : isRecord(value) ? inSnakeCase(value) : value;

/** A table with a line per item, or the text for none. */
export function tableOf<Item>(
  none: string,
  head: readonly string[],
  cells: (item: Item) => readonly (Cell | string)[],
): (items: readonly Item[], called: Pick<Called, 'paint'>) => readonly string[] {
  return (items, { paint }) =>
    items.length === 0 ? [none] : tableLines(head, items.map(cells), paint);
}
