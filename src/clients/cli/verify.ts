import type { Command } from 'commander';
import { counted, invariantTitles, remedies } from '../../service/verify/finding.ts';
import type { Verified } from '../../service/verify/sums.ts';
import type { RowSums } from '../../service/verify/verified-interval.ts';
import type { VerifiedExportReport, VerifyReport } from '../../service/verify/verify-exports.ts';
import { type CliDeps, CliError } from './deps.ts';

interface Options {
  readonly export?: string;
  readonly organization?: string;
  readonly strict?: boolean;
  readonly problems?: boolean;
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
    .option('--problems', 'print only exports that are not proven')
    .option('--json', 'print JSON')
    .action((options: Options) => verify(deps, options));
}

async function verify(deps: CliDeps, options: Options): Promise<void> {
  const { verifyInstallation } = await import('../../main/verify.ts');
  const { readConfig } = await import('../../foundation/config/config.ts');
  const { allowQuickstartS3 } = await import('../quickstart/remembered-s3.ts');
  const { createProgress } = await import('./api/progress.ts');
  const { json = false, strict = false, problems = false } = options;
  const config = await allowQuickstartS3(readConfig(deps.terminal.env));
  const { export: batchExport = null, organization = null } = options;
  const progress = createProgress(deps.terminal);
  const states = new Map<State, number>();
  let share = 0;
  const report = await deps.withDatabase((db, url) =>
    verifyInstallation(config, db, config.SOURCE_DATABASE_URL ?? url, {
      batchExport,
      organization,
      onResult(result) {
        const state = stateOf(result, strict);
        states.set(state, (states.get(state) ?? 0) + 1);
        if (json || (problems && state === 'proven')) return;
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
  const { length } = report.results;
  if (length === 0 && (batchExport ?? organization) !== null) throw nothingFound(options);
  if (json) deps.print(JSON.stringify(report));
  else deps.print(summaryOf(report, states));
  const bad = length - (states.get('proven') ?? 0);
  if (bad > 0) throw new CliError(`${bad} of ${counted(length, 'export')} not proven`);
}

function nothingFound({ export: batchExport, organization }: Options): CliError {
  const within = organization === undefined ? '' : ` in an organization ${organization}`;
  const which = batchExport === undefined ? '' : ` ${batchExport}`;
  return new CliError(`There is no export${which}${within}. Check the id or the name.`);
}

/** What is said of an export, the worst first. */
const labels = {
  broken: 'BROKEN  ',
  unread: 'NOT READ',
  incomplete: 'INCOMPLETE',
  changed: 'CHANGED ',
  proven: 'proven  ',
} as const;

type State = keyof typeof labels;

const inWords: Readonly<Record<State, string>> = {
  broken: 'broken',
  unread: 'not read',
  incomplete: 'incomplete',
  changed: 'changed',
  proven: 'proven',
};

function stateOf(result: VerifiedExportReport, strict: boolean): State {
  const { failure, breaches, missing, late, gone, moved, goneOrMoved } = result;
  if (failure !== null) return 'unread';
  if (breaches > 0) return 'broken';
  if (missing.failed + missing.retrying > 0) return 'incomplete';
  return strict && late + gone + moved + goneOrMoved > 0 ? 'changed' : 'proven';
}

/** Breaches of an export that are printed; JSON has more. */
const printedBreaches = 20;

/** One line with the result, what the proof leaves out, and the remedy; then the breaches. */
function linesOfExport(result: VerifiedExportReport, state: State): string[] {
  const { id, name, findings, breaches, failure } = result;
  const head = `${labels[state]}  ${name} (${id})`;
  const lines = findings
    .slice(0, printedBreaches)
    .map(({ invariant, detail }) => `  ${invariant} (${invariantTitles[invariant]}): ${detail}`);
  if (breaches > lines.length) {
    lines.push(`  and ${breaches - lines.length} more: --export ${id} --json has more of them`);
  }
  if (failure !== null) return [`${head}: ${failure}`, ...lines];
  const [first] = findings;
  const facts = [sizeOf(result), ...sourceFacts(result), ...leftOutOf(result)].join('; ');
  if (first) {
    const found = counted(breaches, 'breach', 'breaches');
    return [`${head}: ${found}. ${first.remedy ?? remedies[first.invariant]}`, ...lines];
  }
  if (state === 'incomplete') return [`${head}: ${describeMissing(result)} ${facts}`];
  const remarks = state === 'changed' ? result.remarks.map((text) => `  ${text}`) : [];
  return [`${head}: ${facts}`, ...remarks.slice(0, printedBreaches)];
}

function describeMissing({ missing, intervals, elsewhere }: Verified): string {
  const { failed, retrying, running } = missing;
  const requested = intervals + elsewhere + failed + retrying + running;
  const lacking = failed + retrying;
  const have = lacking === 1 ? 'has' : 'have';
  const retried =
    retrying === 0 ? '' : `, ${retrying} of them ${retrying === 1 ? 'is' : 'are'} retried`;
  return `${lacking} of ${counted(requested, 'requested interval')} ${have} no data${retried}. Its log says why. Fix the cause, then retry the runs.`;
}

/** Rows that the source has lost, moved or gained since. No promise is broken by them. */
function sourceFacts({ gone, moved, goneOrMoved, late }: RowSums): string[] {
  return [
    ...(gone > 0 ? [`${counted(gone, 'row')} gone from the source`] : []),
    ...(moved > 0 ? [`${counted(moved, 'row')} moved to another interval`] : []),
    ...(goneOrMoved > 0 ? [`${counted(goneOrMoved, 'row')} gone from the source, or moved`] : []),
    ...(late > 0 ? [`${counted(late, 'row')} came late; the next look-back adds them`] : []),
  ];
}

/** What the proof does not contain. */
function leftOutOf({ leftOut, unproven, leftovers, missing }: Verified): string[] {
  const [first] = unproven;
  return [
    ...leftOut,
    ...(first === undefined ? [] : [first]),
    ...(unproven.length > 1 ? [`and ${unproven.length - 1} more such intervals`] : []),
    ...(leftovers > 0
      ? [
          `${counted(leftovers, 'file')} of uncommitted or replaced generations: Sluice removes them after a later commit`,
        ]
      : []),
    ...(missing.running > 0
      ? [`${counted(missing.running, 'requested interval')} not exported yet`]
      : []),
  ];
}

function summaryOf(report: VerifyReport, states: ReadonlyMap<State, number>): string {
  const found = (Object.keys(labels) as State[])
    .toReversed()
    .flatMap((state) => (states.has(state) ? [`${states.get(state)} ${inWords[state]}`] : []));
  const { length } = report.results;
  const counts = length === 0 ? '' : ` (${found.join(', ')})`;
  return `verified ${counted(length, 'export')}${counts}: ${[sizeOf(report), ...sourceFacts(report)].join('; ')}`;
}

function sizeOf({
  intervals,
  files,
  rows,
  bytes,
}: Pick<Verified, 'intervals' | 'files' | 'rows' | 'bytes'>): string {
  const parts = [counted(intervals, 'interval'), counted(files, 'file')];
  return [...parts, counted(rows, 'row'), counted(bytes, 'byte')].join(', ');
}
