import type { Command } from 'commander';
import { readConfig } from '../config/config.ts';
import { invariantTitles } from '../verify/finding.ts';
import { type CliDeps, CliError } from './deps.ts';

/** `sluice verify`: the promises, held against our tables, the source and the bucket. */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('verify')
    .description(
      'prove that the current files hold each source row exactly once; exit 1 if they do not',
    )
    .option('--export <id>', 'one export instead of all')
    .option('--json', 'the report as JSON')
    .action(async (options: { export?: string; json?: boolean }) => {
      const { verifyInstallation } = await import('../main/verify.ts');
      const { allowQuickstartS3 } = await import('../quickstart/remembered-s3.ts');
      const config = await allowQuickstartS3(readConfig());
      const report = await deps.withDatabase((db, url) =>
        verifyInstallation(config, db, config.SOURCE_DATABASE_URL ?? url, options.export ?? null),
      );
      const { exports, intervals, files, rows, bytes, elsewhere, leftovers, findings } = report;
      if (options.json) {
        deps.print(JSON.stringify(report));
      } else {
        deps.print(
          `verified ${exports} exports: ${intervals} intervals, ${files} files, ${rows} rows, ${bytes} bytes`,
        );
        if (elsewhere > 0) {
          deps.print(
            `${elsewhere} intervals are at destinations that were left, and were not read`,
          );
        }
        if (leftovers > 0) {
          deps.print(
            `${leftovers} files of uncommitted or replaced generations are still there; they are removed after a later commit`,
          );
        }
      }
      if (options.export && exports === 0)
        throw new CliError(`There is no export ${options.export}.`);
      if (findings.length === 0) return;
      const lines = findings.map(
        ({ invariant, exportId, detail }) =>
          `${invariant} (${invariantTitles[invariant]}) export ${exportId}: ${detail}`,
      );
      throw new CliError(lines.join('\n'));
    });
}
