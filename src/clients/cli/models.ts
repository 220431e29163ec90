import type { Command } from 'commander';
import type { CheckedModel } from '../../main/check-models.ts';
import { printRecords } from './answer.ts';
import { readProjectId } from './arguments.ts';
import { type CliDeps, CliError } from './deps.ts';

/** `sluice models`: what can be exported. */
export function register(program: Command, deps: CliDeps): void {
  const models = program.command('models').description('models that can be exported (MODELS_FILE)');

  models
    .command('list')
    .description('list every model that exports can name')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { listModels } = await import('../../main/check-models.ts');
      const { readConfig } = await import('../../foundation/config/config.ts');
      const config = readConfig(deps.terminal.env);
      const findSource = async () => config.SOURCE_DATABASE_URL ?? (await deps.findDatabase());
      printRecords(deps, json, await listModels(config, findSource));
    });

  models
    .command('check')
    .description('check every model against its database; exits with 1 if an export would fail')
    .option('--project <id>', 'only for this project (default: all projects)', readProjectId)
    .option('--json', 'print JSON')
    .action(async ({ project, json }: { project?: number; json?: boolean }) => {
      const { checkModels } = await import('../../main/check-models.ts');
      const { readConfig } = await import('../../foundation/config/config.ts');
      const addresses = new Map<string, string | null>([
        ['SOURCE_DATABASE_URL', null],
        ['SOURCE_PRIMARY_URL', null],
      ]);
      const config = readConfig(deps.terminal.env, addresses);
      const sharedFault = [...addresses.values()].find((fault) => fault !== null) ?? null;
      const findSource = async () => config.SOURCE_DATABASE_URL ?? (await deps.findDatabase());
      const { findTenantKey, listTenantKeys } = await import(
        '../../state/store/tenants/tenants.ts'
      );
      const { isModelExported } = await import('../../state/store/exports/exports.ts');
      // Models can be checked from a machine that does not reach the service's database.
      const isExported = (model: string) =>
        deps.withDatabase((db) => isModelExported(db, model)).catch(() => false);
      const tenantKeys = await deps
        .withDatabase((db) =>
          project ? findTenantKey(db, project).then((key) => [key]) : listTenantKeys(db),
        )
        .catch((error: unknown) => {
          if (project === undefined) return [];
          throw error;
        });
      const checked = await checkModels(config, findSource, tenantKeys, isExported, sharedFault);
      if (json) deps.print(JSON.stringify(checked));
      else for (const line of checked.flatMap(reportLines)) deps.print(line);
      const failing = checked.filter(({ findings }) =>
        findings.some(({ severity }) => severity === 'error'),
      );
      if (failing.length === 0) return;
      throw new CliError(`Cannot be exported: ${failing.map(({ model }) => model).join(', ')}.`);
    });
}

function reportLines({ model, findings, plan }: CheckedModel): readonly string[] {
  return [
    `${model}: ${findings.length === 0 ? 'good' : `${findings.length} to look at`}`,
    ...findings.map(({ severity, detail }) => `  ${severity}: ${detail}`),
    ...plan.map((step) => `  plan: ${step}`),
  ];
}
