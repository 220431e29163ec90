import type { Command } from 'commander';
import type { CliDeps } from './deps.ts';

/** `sluice migrate` */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('migrate')
    .description('migrate the schema of DATABASE_URL to this version')
    .option(
      '--source-role',
      'also create or correct the role of SOURCE_DATABASE_URL, with DATABASE_URL as superuser',
    )
    .action(async ({ sourceRole }: { sourceRole?: boolean }) => {
      const { prepareSchemas } = await import('../../main/prepare-schemas.ts');
      const { readConfig } = await import('../../foundation/config/config.ts');
      const config = readConfig(deps.terminal.env);
      const url = await deps.findDatabase();
      const done = await prepareSchemas(config, url);
      deps.print(done.length > 0 ? `migrated: ${done.join(', ')}` : 'up to date');
      if (!sourceRole) return;
      const { ensureConfiguredRole } = await import('../../main/source-role.ts');
      const role = await ensureConfiguredRole(config, url);
      deps.print(
        role === null
          ? 'no source role: SOURCE_DATABASE_URL names no other role of this database'
          : `source role: ${role}`,
      );
    });
}
