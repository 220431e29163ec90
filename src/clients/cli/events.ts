import type { Command } from 'commander';
import { readInstant, readWholeNumber } from './arguments.ts';
import type { CliDeps } from './deps.ts';

interface Options extends Record<'project' | 'rows' | 'from' | 'to', number> {
  readonly json?: boolean;
}

/** `sluice events generate`: test data. */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('events')
    .description('the built-in events table')
    .command('generate')
    .description('write realistic events for a project into the source database')
    .requiredOption('--project <id>', 'the project that owns them', readWholeNumber)
    .requiredOption('--rows <n>', 'number of events', readWholeNumber)
    .requiredOption('--from <time>', 'time of the first event, ISO 8601', readInstant)
    .requiredOption('--to <time>', 'end of the time range (exclusive), ISO 8601', readInstant)
    .option('--json', 'print JSON')
    .action(async ({ project: teamId, rows, from, to, json }: Options) => {
      const { generateEvents } = await import('../../rows/sources/index.ts');
      const { findTenantKey } = await import('../../state/store/tenants/tenants.ts');
      const { readConfig } = await import('../../foundation/config/config.ts');
      const config = readConfig(deps.terminal.env);
      const { writableSourceUrl } = await import('../../main/source-role.ts');
      const url =
        config.DATABASE_URL === null && config.SOURCE_DATABASE_URL !== null
          ? config.SOURCE_DATABASE_URL
          : writableSourceUrl(config, await deps.findDatabase());
      const tenantKey = await deps
        .withDatabase((db) => findTenantKey(db, teamId))
        .catch(() => teamId);
      await generateEvents(url, { teamId: tenantKey, rows, range: { start: from, end: to } });
      deps.print(json ? JSON.stringify({ rows }) : `${rows} events written`);
    });
}
