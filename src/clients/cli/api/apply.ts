import { confirm, print } from '../answer.ts';
import { type CliDeps, CliError, exitCodes, misused } from '../deps.ts';
import { type Paint, paintFor, plain, plural } from '../text.ts';
import { type Api, quoted, RefusedRequest } from './api.ts';
import {
  changesOf,
  type Difference,
  differencesOf,
  queryNames,
  readStoredQueries,
} from './apply-changes.ts';
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
import { type ExportFields, readFieldsAndModels } from './export-fields.ts';
import { readExportsFile, type WantedExport } from './export-spec.ts';
import { listExports } from './find-export.ts';
import { isRecord, type Json } from './json.ts';
import type { BatchExport } from './types.ts';
import type { Called } from './verb.ts';

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
  const done = hasChain ? await perform(deps, api, plan, options) : [];
  if (!hasChain) refused.push('No export was changed, because a step of the chain was refused.');
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
  readonly fields: ExportFields;
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
  return { steps, chain, stored, fields };
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
  { fields, queries }: Omit<Known, 'problems'>,
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
async function perform(
  deps: CliDeps,
  api: Api,
  { steps, fields }: Plan,
  options: ApplyOptions,
): Promise<readonly Step[]> {
  const done: Step[] = [];
  for (const step of steps) {
    const hasFailed = done.some(({ error }) => error !== null);
    if (step.action === 'delete' && hasFailed) {
      done.push({ ...step, error: 'not deleted, because another export failed' });
      continue;
    }
    try {
      const { taken, after } = await performOne(deps, api, step, fields, options);
      done.push({ ...taken, id: after?.id ?? taken.id });
      if (after) reportLeft(deps, taken, after, fields);
    } catch (error) {
      const isOwn = error instanceof CliError && error.exitCode === exitCodes.failed;
      if (!isOwn) throw error;
      done.push({ ...step, error: error.message });
    }
  }
  return done;
}

/** Does one step. If another client created the export at the same moment, it is updated. */
async function performOne(
  deps: CliDeps,
  api: Api,
  step: Step,
  fields: ExportFields,
  options: ApplyOptions,
): Promise<{ readonly taken: Step; readonly after: BatchExport | null }> {
  try {
    return { taken: step, after: await send(api, step) };
  } catch (error) {
    const isConflict = error instanceof RefusedRequest && error.status === 409;
    if (!isConflict || step.action !== 'create' || error.attr !== 'name') throw error;
  }
  const { name, body: spec } = step;
  const stored = (await listExports(api)).find((one) => one.name === name);
  if (!stored) {
    throw new CliError('Another client created and deleted it meanwhile. Apply the file again.');
  }
  const queries = await readStoredQueries(api, [{ name, spec }], [stored]);
  const taken = updateStep(spec, stored, { fields, queries }, options);
  deps.terminal.err(`${plain(name)}: another client created it meanwhile (${stored.id}).\n`);
  if (!options.json) for (const line of stepLines(taken, paintFor(deps.terminal))) deps.print(line);
  return { taken, after: await send(api, taken) };
}

async function send(api: Api, { action, id, body }: Step): Promise<BatchExport | null> {
  if (action === 'unchanged') return null;
  if (id === null) {
    return api.call('post', 'batch_exports', { body: { ...body, unique_name: true } });
  }
  const path = { id };
  if (action === 'update') return api.call('patch', 'batch_exports/{id}', { path, body });
  await api.call('delete', 'batch_exports/{id}', { path }).catch((error: unknown) => {
    const isGone = error instanceof RefusedRequest && error.status === 404;
    if (!isGone) throw error;
  });
  return null;
}

/** If the service stores another text for the same thing, each apply would find a difference. */
function reportLeft(
  { terminal }: CliDeps,
  { name, body }: Step,
  after: BatchExport,
  fields: ExportFields,
): void {
  const hasFilters = (after.filters ?? []).length > 0;
  for (const { field, before } of differencesOf(body, after, fields)) {
    // It has the conditions of the filters too.
    if (hasFilters && queryNames.has(field)) continue;
    const stored = plain(JSON.stringify(before) ?? 'null');
    terminal.err(`${plain(name)}: ${field} is stored as ${stored}. Write this in the file.\n`);
  }
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
