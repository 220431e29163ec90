import type { Command } from 'commander';
import { readClientSettings } from '../../foundation/config/client-settings.ts';
import type { Examined } from './examined.ts';
import { type CliDeps, CliError, exitCodes } from './deps.ts';

interface Options {
  readonly json?: boolean;
  readonly installation?: boolean;
}

/** `sluice doctor`: what an operator checks first. */
export function registerDoctor(program: Command, deps: CliDeps): void {
  program
    .command('doctor')
    .description(
      'check the database, migrations, queue, clocks, era, models, mail server and destinations of this machine, and the API at SLUICE_URL; exits with 1 if a check fails',
    )
    .option(
      '--installation',
      'only what the operator must fix fails: what a customer must fix at a destination is a warning',
    )
    .option('--json', 'print JSON')
    .action((options: Options) => doctor(deps, options));
}

async function doctor(deps: CliDeps, { json, installation = false }: Options): Promise<void> {
  const { paintFor, tableLines } = await import('./text.ts');
  const all = [...(await examineHere(deps, installation)), ...(await examineApi(deps))];
  if (json) deps.print(JSON.stringify(all));
  else {
    const colours = { ok: 'green', warning: 'yellow', failed: 'red' } as const;
    const rows = all.map(({ check, result, detail }) => [
      check,
      { text: result, colour: colours[result] },
      detail,
    ]);
    const lines = tableLines(['CHECK', 'RESULT', ''], rows, paintFor(deps.terminal));
    for (const line of lines) deps.print(line);
  }
  const faults = all.filter(({ result }) => result === 'failed').length;
  if (faults > 0) throw new CliError(`${faults} of ${all.length} checks failed.`);
}

async function examineHere(deps: CliDeps, onlyInstallation: boolean): Promise<readonly Examined[]> {
  const { readConfig } = await import('../../foundation/config/config.ts');
  const config = readConfig(deps.terminal.env);
  try {
    const url = await deps.findDatabase();
    const { examineInstallation } = await import('./examine.ts');
    const { allowQuickstartS3 } = await import('../quickstart/remembered-s3.ts');
    return await examineInstallation(await allowQuickstartS3(config), url, onlyInstallation);
  } catch (error) {
    // On a machine without a database there is the API to check.
    const { url } = readClientSettings(deps.terminal.env);
    if (!(error instanceof CliError) || url !== null) {
      if (error instanceof CliError) return [];
      throw error;
    }
    return [{ check: 'database', result: 'failed', detail: error.message }];
  }
}

async function examineApi(deps: CliDeps): Promise<readonly Examined[]> {
  const { url, key } = readClientSettings(deps.terminal.env);
  if (url === null) return [];
  const { openApi } = await import('./api/open-api.ts');
  const examined: Examined[] = [];
  const attempt = async (check: string, look: () => Promise<Omit<Examined, 'check'>>) => {
    const result = await look().catch((error: unknown) => {
      if (!(error instanceof CliError)) throw error;
      return { result: 'failed' as const, detail: error.message };
    });
    examined.push({ check, ...result });
    return result.result !== 'failed';
  };
  const reached = await attempt('API', async () => {
    const { status, checks } = await openApi(deps, {}).call('get', '/readyz', { accepts: 503 });
    const faults = Object.entries(checks).filter(([, text]) => text !== 'ok');
    const detail = faults.map(([name, text]) => `${name}: ${text}`).join('; ');
    const result = status === 'ok' ? 'ok' : status === 'degraded' ? 'warning' : 'failed';
    return { result, detail: detail === '' ? url : `${url}: ${detail}` };
  });
  if (reached && key !== null) {
    await attempt('API key', async () => {
      const api = openApi(deps, {});
      const { key_name: name, scopes } = await api
        .call('get', '/api/me')
        .catch((error: unknown) => {
          const isRefused = error instanceof CliError && error.exitCode === exitCodes.refused;
          if (!isRefused) throw error;
          // The key of an operator belongs to no organization.
          return api.call('get', '/api/admin/me').catch(() => {
            throw error;
          });
        });
      return { result: 'ok', detail: `${name}: ${scopes.join(', ')}` };
    });
  }
  return examined;
}
