import { isDeepStrictEqual } from 'node:util';
import { confirm, print } from '../answer.ts';
import { type CliDeps, CliError, exitCodes, misused } from '../deps.ts';
import { type Paint, paintFor, plain, plural } from '../text.ts';
import { type Api, quoted } from './api.ts';
import {
  type Action,
  type ApplyChoice,
  type Change,
  changeLine,
  countsOf,
  planChain,
  sendChanges,
  shownChange,
} from './apply-chain.ts';
import { RefusedRequest } from './explain.ts';
import { type ExportFields, readFieldsAndModels } from './export-fields.ts';
import { readExportsFile, type WantedExport } from './exports-file.ts';
import { listExports } from './find-export.ts';
import { isRecord, type Json } from './json.ts';
import type { BatchExport } from './types.ts';
import type { Called } from './verb.ts';
import { parseTime } from '../../../foundation/domain/parse-time.ts';

interface ApplyOptions extends ApplyChoice {
  readonly json: boolean;
  readonly file: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

interface Step {
  readonly action: Action;
  readonly name: string;
  /** Null before it is created. */
  readonly id: string | null;
  readonly changes: readonly Difference[];
  /** The request's body; empty if it needs none. */
  readonly body: Json;
  /** Why it could not be done; null if it was, or is only planned. */
  readonly error: string | null;
}

/** `sluice apply`: makes the exports of the project those of a file. */
export async function apply({ deps, api, given, isJson }: Called): Promise<null> {
  const options = { ...given, json: isJson } as unknown as ApplyOptions;
  const fields = await readFieldsAndModels(api);
  const plan = await planFile(deps, api, fields, options);
  if (!options.json) {
    const paint = paintFor(deps.terminal);
    for (const line of plan.steps.flatMap((one) => stepLines(one, paint))) deps.print(line);
    for (const one of plan.chain ?? []) deps.print(changeLine(paint, one, 'step ', one.fields));
  }
  if (options.dryRun) {
    printResult(deps, options, plan, plan.steps);
    return null;
  }
  const going = deletionsOf(plan);
  if (going !== null) {
    const question = `Delete ${going} of ${await projectOf(api, plan.stored)} that the file does not have?`;
    await confirm(deps.terminal, question, options.yes ?? false);
  }
  // The chain comes first: an export that applies it must not send rows that a step masks.
  const refused: string[] = [];
  await sendChanges(api, plan.chain ?? [], refused);
  const hasChain = refused.length === 0;
  const done = hasChain ? await perform(api, plan.steps) : [];
  if (!hasChain) {
    refused.push('No export was changed, because a step of the chain was refused.');
  }
  printResult(deps, options, { ...plan, chain: hasChain ? plan.chain : null }, done);
  const failed = done.filter(({ error }) => error !== null);
  const lines = [...refused, ...failed.map(({ name, error }) => `${plain(name)}: ${error}`)];
  if (lines.length > 0) throw new CliError(lines.join('\n'));
  return null;
}

interface Plan {
  readonly steps: readonly Step[];
  /** Null: the file does not speak of the chain. */
  readonly chain: readonly Change[] | null;
  readonly stored: readonly BatchExport[];
}

/** @throws CliError with all faults of the file, whichever part they are in */
async function planFile(
  deps: CliDeps,
  api: Api,
  fields: ExportFields,
  options: ApplyOptions,
): Promise<Plan> {
  const file = await readExportsFile(deps.terminal, options.file, fields);
  const { exports: wanted, transformations } = file;
  const stored = await listExports(api);
  const queries = await readStoredQueries(api, wanted, stored);
  const problems = [...file.problems];
  const steps = planSteps(wanted, stored, { fields, queries, problems }, options);
  const planning = { ...options, problems };
  const chain = transformations && (await planChain(deps, api, transformations, planning));
  if (problems.length > 0) throw new CliError(problems.join('\n'));
  return { steps, chain, stored };
}

/** @param made what was done of the plan; in a dry run all of it */
function printResult(
  deps: CliDeps,
  options: ApplyOptions,
  { chain }: Plan,
  made: readonly Step[],
): void {
  const isDryRun = options.dryRun ?? false;
  const steps = (count: number) => plural(count, 'step');
  const exports = made.map(shownChange);
  const shown = chain ? { exports, transformations: chain.map(shownChange) } : exports;
  print(deps, options, shown, () => [
    ...(chain ? [`Transformations: ${countsOf(chain, isDryRun, steps)}`] : []),
    summaryOf(made, isDryRun),
  ]);
}

/** `2 exports, 1 step`; null if nothing is deleted. */
function deletionsOf({ steps, chain }: Plan): string | null {
  const parts = { export: steps, step: chain };
  const counted = Object.entries(parts).flatMap(([what, changes]) => {
    const count = (changes ?? []).filter(({ action }) => action === 'delete').length;
    return count === 0 ? [] : [plural(count, what)];
  });
  return counted.length === 0 ? null : counted.join(', ');
}

/** The fields of exports and the queries of the file, as the service has them. */
interface Known {
  readonly fields: ExportFields;
  readonly queries: Awaited<ReturnType<typeof readStoredQueries>>;
  /** Gets a line for each fault. */
  readonly problems: string[];
}

function planSteps(
  wanted: readonly WantedExport[],
  stored: readonly BatchExport[],
  known: Known,
  options: ApplyOptions,
): readonly Step[] {
  if (options.prune && wanted.length === 0) {
    throw misused(
      'The file has no exports, so --prune would delete all. Use `sluice exports delete <export>` for each.',
    );
  }
  const { problems } = known;
  const steps = wanted.map(({ name, spec, missingSecrets }): Step => {
    const sameName = stored.filter((one) => one.name === name);
    const [first] = sameName;
    if (sameName.length > 1) {
      const ids = sameName.map(({ id }) => id).join(', ');
      problems.push(
        `${sameName.length} exports are named ${quoted(name)}: ${ids}. Rename or delete all but one.`,
      );
    }
    const step = first
      ? updateStep(spec, first, known, options)
      : { action: 'create' as const, name, id: null, changes: [], body: spec, error: null };
    const sends = isRecord(step.body.destination);
    if (sends) problems.push(...missingSecrets.map((problem) => `${plain(name)}: ${problem}`));
    return step;
  });
  const names = new Set(wanted.map(({ name }) => name));
  if (options.prune && stored.length > 0 && !stored.some(({ name }) => names.has(name))) {
    throw misused(
      `No export of project ${stored[0]?.team_id} is in the file, so --prune would delete all ${stored.length}. Check --project and SLUICE_KEY. If they are right, apply the file without --prune first.`,
    );
  }
  const others = options.prune ? stored.filter(({ name }) => !names.has(name)) : [];
  return [...steps, ...others.map(deleteStep)];
}

function updateStep(
  spec: Json,
  stored: BatchExport,
  { fields, queries }: Known,
  { secrets = false }: ApplyOptions,
): Step {
  const { id, name } = stored;
  const changes = differencesOf(spec, stored, fields, queries.get(name));
  const resent = secrets && isRecord(spec.destination) ? { destination: spec.destination } : {};
  const body = { ...changesOf(spec, changes), ...resent };
  const action = Object.keys(body).length === 0 ? 'unchanged' : 'update';
  return { action, name, id, changes, body, error: null };
}

const deleteStep = ({ id, name }: BatchExport): Step => {
  return { action: 'delete', name, id, changes: [], body: {}, error: null };
};

/** Continues after a failure, so that one bad export does not hold the others; deletes last, if all is well. */
async function perform(api: Api, steps: readonly Step[]): Promise<readonly Step[]> {
  const done: Step[] = [];
  for (const step of steps) {
    const hasFailed = done.some(({ error }) => error !== null);
    if (step.action === 'delete' && hasFailed) {
      done.push({ ...step, error: 'not deleted, because another export failed' });
      continue;
    }
    try {
      done.push({ ...step, id: await send(api, step) });
    } catch (error) {
      const isOwn = error instanceof CliError && error.exitCode === exitCodes.failed;
      if (!isOwn) throw error;
      done.push({ ...step, error: error.message });
    }
  }
  return done;
}

async function send(api: Api, { action, id, body }: Step): Promise<string | null> {
  if (action === 'unchanged') return id;
  if (id === null) {
    return (await api.call('post', 'batch_exports', { body: { ...body, unique_name: true } })).id;
  }
  const path = { id };
  if (action === 'update') await api.call('patch', 'batch_exports/{id}', { path, body });
  else {
    await api.call('delete', 'batch_exports/{id}', { path }).catch((error: unknown) => {
      const isGone = error instanceof RefusedRequest && error.status === 404;
      if (!isGone) throw error;
    });
  }
  return id;
}

/** `project 7 (Web)`: a file applied to the wrong project deletes what is there. */
async function projectOf(api: Api, stored: readonly BatchExport[]): Promise<string> {
  const id = stored[0]?.team_id;
  if (id === undefined) return 'the project';
  const own = (await api.call('get', '/api/me')).projects.find((project) => project.id === id);
  return `project ${id}${own ? ` (${plain(own.name)})` : ''}`;
}

function stepLines(step: Step, paint: Paint): readonly string[] {
  const { action, changes, body } = step;
  const lines = changes.map(
    ({ field, before, after }) => `    ${field}: ${shown(before)} → ${shown(after)}`,
  );
  const onlySecrets = action === 'update' && changes.length === 0 && body.destination !== undefined;
  return [changeLine(paint, step), ...lines, ...(onlySecrets ? ['    secrets'] : [])];
}

const longest = 80;

function shown(value: unknown): string {
  const text = plain(JSON.stringify(value) ?? 'null');
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

function summaryOf(done: readonly Step[], isDryRun: boolean): string {
  if (done.every(({ action }) => action === 'unchanged')) {
    return `No change: ${plural(done.length, 'export')} as in the file.`;
  }
  const failed = done.filter(({ error }) => error !== null).length;
  const counts = countsOf(
    done.filter(({ error }) => error === null),
    isDryRun,
  );
  if (isDryRun) return `${counts} Nothing was changed (--dry-run).`;
  return failed === 0 ? counts : `${counts.slice(0, -1)}, ${failed} failed.`;
}

/** A field that a file says differently than the service. */
interface Difference {
  /** `destination.config.prefix` */
  readonly field: string;
  readonly before: unknown;
  readonly after: unknown;
}

/**
 * The fields of `spec` that differ from what the service has. A field that `spec` leaves out is no
 * difference, and neither is a secret: the service shows none.
 *
 * @param query the query of `spec` as the service stores it; undefined: as it is
 */
function differencesOf(
  spec: Json,
  stored: BatchExport,
  fields: ExportFields,
  query?: string | null,
): readonly Difference[] {
  const current = stored as unknown as Json;
  return Object.entries(spec).flatMap(([name, value]): readonly Difference[] => {
    if (name === 'destination' && isRecord(value)) {
      return destinationDifferences(value, stored, fields);
    }
    // The API takes PostHog's name of the query, and answers with its own.
    const isQuery = queryNames.has(name);
    const before = current[isQuery ? 'dsl_query' : name];
    const after = isQuery && query !== undefined ? query : value;
    const same = fields.times.has(name) ? isSameTime(before, after) : isSame(before, after);
    return same ? [] : [{ field: name, before: before ?? null, after }];
  });
}

function destinationDifferences(
  { type, config }: Json,
  { destination, team_id: project }: BatchExport,
  fields: ExportFields,
): readonly Difference[] {
  const facts = fields.destinations.get(destination.type);
  // A property of the type that it gets may be a secret, though the type that it has has no such property.
  const wantedType = fields.destinations.get(String(type ?? destination.type));
  const isSecret = (name: string) => facts?.secrets.has(name) || wantedType?.secrets.has(name);
  const differences: Difference[] = [];
  if (type !== undefined && type !== destination.type) {
    differences.push({ field: 'destination.type', before: destination.type, after: type });
  }
  for (const [name, after] of Object.entries(isRecord(config) ? config : {})) {
    if (isSecret(name)) continue;
    const before = destination.config[name] ?? null;
    // Null removes a property. Only those that have no other default may be null.
    const newValue = after ?? null;
    const isBelow = facts?.belowProject.has(name) && before === `${project}/${newValue}`;
    if (isBelow || isSame(before, newValue)) continue;
    differences.push({ field: `destination.config.${name}`, before, after: newValue });
  }
  return differences;
}

const isSame = (before: unknown, after: unknown) =>
  isDeepStrictEqual(settled(before), settled(after));

/** The API stores an empty list as null. */
const settled = (value: unknown) =>
  Array.isArray(value) && value.length === 0 ? null : (value ?? null);

function isSameTime(before: unknown, after: unknown): boolean {
  const instant = (value: unknown) =>
    typeof value === 'string' ? (parseTime(value)?.timestamp ?? value) : value;
  return isSame(instant(before), instant(after));
}

/** The body of the request that makes the changes; the destination's secrets go with each change of it. */
function changesOf(spec: Json, differences: readonly Difference[]): Json {
  const names = new Set(differences.map(({ field }) => field.split('.')[0] ?? ''));
  return Object.fromEntries(Object.entries(spec).filter(([name]) => names.has(name)));
}

/** The names of the query in a file: the second is PostHog's. */
const queryNames: ReadonlySet<string> = new Set(['dsl_query', 'hogql_query']);

/** The queries of stored exports with filters, as the service has them: with the conditions of the filters. */
async function readStoredQueries(
  api: Api,
  wanted: readonly WantedExport[],
  stored: readonly BatchExport[],
): Promise<ReadonlyMap<string, string | null>> {
  const queries = new Map<string, string | null>();
  for (const { name, spec } of wanted) {
    const saved = stored.find((one) => one.name === name);
    const query = spec.dsl_query === undefined ? spec.hogql_query : spec.dsl_query;
    const filters = spec.filters === undefined ? saved?.filters : spec.filters;
    if (!saved || query === undefined || query === saved.dsl_query || !hasSome(filters)) continue;
    const body: Json = { model: saved.model, dsl_query: query, filters };
    try {
      queries.set(name, (await api.call('post', 'batch_exports/query', { body })).dsl_query);
    } catch (error) {
      // The change itself is refused with the reason.
      if (!(error instanceof RefusedRequest)) throw error;
    }
  }
  return queries;
}

const hasSome = (filters: unknown): boolean =>
  Array.isArray(filters) && filters.some((one) => isRecord(one));
