import { readClientSettings } from '../../foundation/config/client-settings.ts';
import { openApi } from './api/open-api.ts';
import { here, type Verbs } from './api/verb.ts';
import { type CliDeps, CliError, exitCodes } from './deps.ts';
import type { Examined } from './examine-destinations.ts';
import { tableLines } from './text.ts';

const colours = { ok: 'green', warning: 'yellow', failed: 'red' } as const;

/** `sluice doctor`: what an operator checks first. */
export const doctorVerb: Verbs = {
  doctor: here<readonly Examined[]>({
    about:
      'check the database, migrations, queue, clocks, era, models, mail server and destinations of this machine, and the API at SLUICE_URL; exits with 1 if a check fails',
    flags: {
      installation: [
        '--installation',
        'only what the operator must fix fails: what a customer must fix at a destination is a warning',
      ],
    },
    run: async ({ deps, given }) => [
      ...(await examineHere(deps, given.installation === true)),
      ...(await examineApi(deps)),
    ],
    lines: (all, { paint }) =>
      tableLines(
        ['CHECK', 'RESULT', ''],
        all.map(({ check, result, detail }) => [
          check,
          { text: result, colour: colours[result] },
          detail,
        ]),
        paint,
      ),
    failure(all) {
      const faults = all.filter(({ result }) => result === 'failed').length;
      return faults === 0 ? null : `${faults} of ${all.length} checks failed.`;
    },
  }),
};

async function examineHere(deps: CliDeps, onlyInstallation: boolean): Promise<readonly Examined[]> {
  const { readConfig } = await import('../../foundation/config/config.ts');
  const config = readConfig(deps.terminal.env);
  try {
    const url = await deps.findDatabase();
    const { examineInstallation } = await import('./examine.ts');
    const { allowQuickstartS3 } = await import('../quickstart/local-s3.ts');
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
