import type { Command } from 'commander';
import {
  describeResult,
  printedBreaches,
  resultOf,
  sizeOf,
  sourceFacts,
} from '../../service/verify/describe-result.ts';
import { soundVerifications } from '../../foundation/domain/verification.ts';
import { counted } from '../../service/verify/finding.ts';
import type { VerifiedExportReport, VerifyReport } from '../../service/verify/verify-exports.ts';
import { type CliDeps, CliError } from './deps.ts';

interface Options {
  readonly export?: string;
  readonly organization?: string;
  readonly strict?: boolean;
  readonly problems?: boolean;
  readonly last?: boolean;
  readonly json?: boolean;
}

/** `sluice verify`: checks the guarantees against our tables, the source and the destination. */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('verify')
    .description(
      'verify that the current files contain each source row exactly once; exits with 1 if not',
    )
    .option('--export <id or name>', 'verify only the exports with this id or name')
    .option('--organization <id or name>', 'verify only exports of this organization')
    .option(
      '--strict',
      'also exit with 1 if rows have left the source, moved to another interval or came late',
    )
    .option('--problems', 'print only exports that are wrong or could not be read')
    .option('--last', 'verify nothing; print the newest results of VERIFY_SCHEDULE')
    .option('--json', 'print JSON')
    .action((options: Options) => (options.last ? printLast : verify)(deps, options));
}

async function verify(deps: CliDeps, options: Options): Promise<void> {
  const { verifyInstallation } = await import('../../main/verify.ts');
  const { readConfig } = await import('../../foundation/config/config.ts');
  const { allowQuickstartS3 } = await import('../quickstart/local-s3.ts');
  const { findSourceUrl } = await import('../../main/models.ts');
  const { createProgress } = await import('./api/progress.ts');
  const { json = false, strict = false, problems = false } = options;
  const config = await allowQuickstartS3(readConfig(deps.terminal.env));
  const { export: batchExport = null, organization = null } = options;
  const progress = createProgress(deps.terminal);
  let share = 0;
  const report = await deps.withDatabase(async (db, url) =>
    verifyInstallation(config, db, await findSourceUrl(config, url), {
      batchExport,
      organization,
      onResult(result) {
        const state = stateOf(result, strict);
        if (json || (problems && soundVerifications.includes(state))) return;
        progress.clear();
        for (const line of linesOfExport(result, state)) deps.print(line);
      },
      onProgress(done) {
        // Each interval would be too often, and a line per quarter is of no use without a terminal.
        if (json || !deps.terminal.drawsProgress || done - share < 0.002) return;
        share = done;
        progress.show(share, 'verified');
      },
    }),
  );
  progress.clear();
  const verified = report.results.map((one) => ({ ...one, result: stateOf(one, strict) }));
  const states = verified.map(({ result }) => result);
  if (states.length === 0 && (batchExport ?? organization) !== null) throw nothingFound(options);
  if (json) {
    const results = verified.filter(
      ({ result }) => !problems || !soundVerifications.includes(result),
    );
    deps.print(JSON.stringify({ ...report, results }));
  } else deps.print(summaryOf(report, states));
  expectProven(states);
}

async function printLast(deps: CliDeps, options: Options): Promise<void> {
  const { listVerifications } = await import('../../state/store/intervals/verifications.ts');
  const { json, problems = false, export: batchExport, organization } = options;
  const all = await deps.withDatabase((db) => listVerifications(db, printedResults));
  const isNamed = (name: string | undefined, ...names: readonly string[]) =>
    name === undefined || names.includes(name);
  const shown = all.results.filter(
    (one) =>
      isNamed(batchExport, one.exportId, one.name) &&
      isNamed(organization, one.organizationId, one.organizationName),
  );
  const listed = problems
    ? shown.filter(({ result }) => !soundVerifications.includes(result))
    : shown;
  if (json) deps.print(JSON.stringify(listed));
  else {
    for (const { exportId: id, name, result, verifiedAt, detail } of listed) {
      const [first = '', ...lines] = detail.split('\n');
      deps.print(`${labels[result]}  ${name} (${id}), ${verifiedAt}: ${first}`);
      for (const line of lines) deps.print(line);
    }
    if (all.count > all.results.length) {
      deps.print(`${all.count - all.results.length} more were verified earlier.`);
    }
  }
  if (shown.length === 0) {
    const which = batchExport ?? organization;
    if (which !== undefined) {
      throw new CliError(
        `VERIFY_SCHEDULE has verified no export of ${which}. Check the id or the name.`,
      );
    }
    if (!json) deps.print('VERIFY_SCHEDULE has verified no export yet.');
    return;
  }
  const states = shown.map(({ result }) => result);
  if (!json) deps.print(`verified ${counted(shown.length, 'export')}${inStates(states)}`);
  expectProven(states);
}

/** Results that are printed, the newest. */
const printedResults = 10_000;

function nothingFound({ export: batchExport, organization }: Options): CliError {
  const within = organization === undefined ? '' : ` in an organization ${organization}`;
  const which = batchExport === undefined ? '' : ` ${batchExport}`;
  return new CliError(`There is no export${which}${within}. Check the id or the name.`);
}

/** The result of an export, the worst first. */
const labels = {
  broken: 'BROKEN  ',
  unread: 'NOT READ',
  incomplete: 'INCOMPLETE',
  changed: 'CHANGED ',
  nothing_yet: 'nothing yet',
  proven: 'proven  ',
} as const;

type State = keyof typeof labels;

/** @throws CliError if exports are wrong. One that has exported nothing yet is not proven, and not wrong. */
function expectProven(states: readonly State[]): void {
  const bad = states.filter((state) => !soundVerifications.includes(state)).length;
  if (bad > 0) throw new CliError(`${bad} of ${counted(states.length, 'export')} not proven`);
}

function stateOf(found: VerifiedExportReport, strict: boolean): State {
  const result = resultOf(found);
  const { late, gone, moved, goneOrMoved } = found;
  return result === 'proven' && strict && late + gone + moved + goneOrMoved > 0
    ? 'changed'
    : result;
}

function linesOfExport(result: VerifiedExportReport, state: State): string[] {
  const { id, name, remarks } = result;
  const [detail, ...lines] = describeResult(result, state === 'changed' ? 'proven' : state);
  const more = state === 'changed' ? remarks.map((text) => `  ${text}`) : lines;
  return [`${labels[state]}  ${name} (${id}): ${detail}`, ...more.slice(0, printedBreaches + 1)];
}

const summaryOf = (report: VerifyReport, states: readonly State[]): string =>
  `verified ${counted(states.length, 'export')}${inStates(states)}: ${[sizeOf(report), ...sourceFacts(report)].join('; ')}`;

/** ` (2 proven, 1 broken)`, the worst last. */
function inStates(states: readonly State[]): string {
  const texts = (Object.keys(labels) as State[]).toReversed().flatMap((state) => {
    const count = states.filter((one) => one === state).length;
    return count === 0 ? [] : [`${count} ${labels[state].trim().toLowerCase()}`];
  });
  return texts.length === 0 ? '' : ` (${texts.join(', ')})`;
}
