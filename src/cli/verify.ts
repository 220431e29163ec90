import type { Command } from 'commander';
import { readConfig } from '../config/config.ts';
import { invariantTitles } from '../verify/finding.ts';
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
      const { allowQuickstartS3 } = await import('../quickstart/remembered-s3.ts');
      const config = await allowQuickstartS3(readConfig());
      const report = await deps.withDatabase((db, url) =>
        verifyInstallation(config, db, config.SOURCE_DATABASE_URL ?? url, options.export ?? null),
      );
      const { exports, intervals, files, rows, bytes, elsewhere, leftovers, findings, unproven } =
        report;
      if (options.json) {
        deps.print(JSON.stringify(report));
      } else {
        deps.print(
          `verified ${counted(exports, 'export')}: ${[
            counted(intervals, 'interval'),
            counted(files, 'file'),
            counted(rows, 'row'),
            counted(bytes, 'byte'),
          ].join(', ')}`,
        );
        for (const why of unproven) deps.print(why);
        if (elsewhere > 0) {
          deps.print(`${counted(elsewhere, 'interval')} at former destinations: not read`);
        }
        if (leftovers > 0) {
          deps.print(
            `${counted(leftovers, 'file')} of uncommitted or replaced generations: Sluice removes them after a later commit`,
          );
        }
      }
      if (options.export && exports === 0)
        throw new CliError(`There is no export ${options.export}. Check the id.`);
      if (findings.length === 0) return;
      const lines = findings.map(
        ({ invariant, exportId, detail }) =>
          `${invariant} (${invariantTitles[invariant]}) export ${exportId}: ${detail}`,
      );
      throw new CliError(lines.join('\n'));
    });
}

/** `1 file`, `3 files` */
function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
