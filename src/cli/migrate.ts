import type { Command } from 'commander';
import { readConfig } from '../config/config.ts';
import type { CliDeps } from './deps.ts';

/** `sluice migrate` */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('migrate')
    .description('migrate the schema of DATABASE_URL to this version')
    .action(async () => {
      const { prepareSchemas } = await import('../main/prepare-schemas.ts');
      const config = readConfig();
      const url = await deps.findDatabase();
      const done = await prepareSchemas(config, url, config.SOURCE_DATABASE_URL ?? url);
      deps.print(done.length > 0 ? `migrated: ${done.join(', ')}` : 'up to date');
    });
}
