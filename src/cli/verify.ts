import type { Command } from 'commander';
import { invariantTitles, remedies } from '../verify/finding.ts';
import type { Verified } from '../verify/verify-export.ts';
import type { VerifiedExportReport, VerifyReport } from '../verify/verify-exports.ts';
import { type CliDeps, CliError } from './deps.ts';

/** `sluice verify`: checks the guarantees against our tables, the source and the destination. */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('verify')
    .description(
      'verify that the current files contain each source row exactly once; exits with 1 if not',
    )
    .option('--export <id>', 'verify only this export')
    .option('--json', 'print JSON')
    .action(async (options: { export?: string; json?: boolean }) => {
      const { verifyInstallation } = await import('../main/verify.ts');
      const { readConfig } = await import('../config/config.ts');
      const { allowQuickstartS3 } = await import('../quickstart/remembered-s3.ts');
      const config = await allowQuickstartS3(readConfig(deps.terminal.env));
      const report = await deps.withDatabase((db, url) =>
        verifyInstallation(config, db, config.SOURCE_DATABASE_URL ?? url, options.export ?? null),
      );
      if (options.export && report.results.length === 0)
        throw new CliError(`There is no export ${options.export}. Check the id.`);
      const bad = report.results.filter(({ findings, failure }) => failure ?? findings[0]);
      if (options.json) deps.print(JSON.stringify(report));
      else for (const line of linesOf(report)) deps.print(line);
      if (bad.length === 0) return;
      throw new CliError(`${bad.length} of ${counted(report.results.length, 'export')} not proven`);
    });
}

/** Breaches of an export that are printed; JSON has all. */
const printedBreaches = 20;

function linesOf(report: VerifyReport): string[] {
  const { exports, unproven, elsewhere, leftovers } = report;
  const lines = report.results.flatMap(linesOfExport);
  lines.push(`verified ${counted(exports, 'export')}: ${sizeOf(report)}`, ...unproven);
  if (elsewhere > 0)
    lines.push(`${counted(elsewhere, 'interval')} at former destinations: not read`);
  if (leftovers > 0) {
    lines.push(
      `${counted(leftovers, 'file')} of uncommitted or replaced generations: Sluice removes them after a later commit`,
    );
  }
  return lines;
}

/** One line with the result and the remedy; then the breaches. */
function linesOfExport(result: VerifiedExportReport): string[] {
  const { id, name, findings, failure } = result;
  const which = `${name} (${id})`;
  const breaches = findings
    .slice(0, printedBreaches)
    .map(({ invariant, detail }) => `  ${invariant} (${invariantTitles[invariant]}): ${detail}`);
  if (findings.length > printedBreaches) {
    breaches.push(`  and ${findings.length - printedBreaches} more: --export ${id} --json has all`);
  }
  const [first] = findings;
  if (failure !== null) return [`NOT READ  ${which}: ${failure}`, ...breaches];
  if (!first) return [`proven    ${which}: ${sizeOf(result)}`];
  const found = counted(findings.length, 'breach', 'breaches');
  return [`BROKEN    ${which}: ${found}. ${remedies[first.invariant]}`, ...breaches];
}

function sizeOf({ intervals, files, rows, bytes }: Verified): string {
  const parts = [counted(intervals, 'interval'), counted(files, 'file')];
  return [...parts, counted(rows, 'row'), counted(bytes, 'byte')].join(', ');
}

/** `1 file`, `3 files` */
function counted(count: number, what: string, many = `${what}s`): string {
  return `${count} ${count === 1 ? what : many}`;
}
