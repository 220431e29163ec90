import type { Command } from 'commander';
import { type CliDeps, CliError } from './deps.ts';

/** `sluice migrate` */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('migrate')
    .description('migrate the schema of DATABASE_URL to this version')
    .option(
      '--source-role',
      'also create or correct the role of SOURCE_DATABASE_URL, with DATABASE_URL as superuser',
    )
    .option('--json', 'print JSON')
    .action(async ({ sourceRole, json }: { sourceRole?: boolean; json?: boolean }) => {
      const { prepareSchemas } = await import('../../main/prepare-schemas.ts');
      const { readConfig } = await import('../../foundation/config/config.ts');
      const config = readConfig(deps.terminal.env);
      const url = await deps.findDatabase();
      const owner = sourceRole ? await findOwnerBeside(url) : null;
      const done = owner === null ? await prepareSchemas(config, url) : [];
      if (!json) deps.print(done.length > 0 ? `migrated: ${done.join(', ')}` : 'up to date');
      if (!sourceRole) {
        if (json) deps.print(JSON.stringify({ migrated: done }));
        return;
      }
      const { ensureConfiguredRole } = await import('../../main/source-role.ts');
      const role = await ensureConfiguredRole(config, url);
      if (json) {
        deps.print(JSON.stringify({ migrated: done, source_role: role }));
        return;
      }
      deps.print(
        role === null
          ? 'no source role: SOURCE_DATABASE_URL names no other role of this database'
          : `source role: ${role}`,
      );
    });
}

/**
 * What a superuser makes would belong to the superuser, and the service could not use it.
 *
 * @returns the role that owns the tables; null: the role that logs in may make them
 */
async function findOwnerBeside(url: string): Promise<string | null> {
  const { checkSchema, findOwnerBesideSuperuser, SchemaError } = await import(
    '../../state/store/database/migrate.ts'
  );
  const owner = await findOwnerBesideSuperuser(url);
  if (owner === null) return null;
  await checkSchema(url).catch((error: unknown) => {
    if (!(error instanceof SchemaError)) throw error;
    throw new CliError(
      `The tables of Sluice must belong to the role ${owner}. Run \`sluice migrate\` with its address in DATABASE_URL first, then this command again.`,
    );
  });
  return owner;
}
