import { Command } from 'commander';
import { readClientSettings } from '../../foundation/config/client-settings.ts';
import { causeVerbs } from './api/cause-verbs.ts';
import { exportVerbs } from './api/export-verbs.ts';
import { openApi } from './api/open-api.ts';
import { recordVerbs } from './api/record-verbs.ts';
import { runVerbs } from './api/run-verbs.ts';
import { stepVerbs } from './api/step-verbs.ts';
import { targetVerbs } from './api/target-verbs.ts';
import { taskVerbs } from './api/task-verbs.ts';
import { tenantVerbs } from './api/tenant-verbs.ts';
import { here, registerVerbs, type Verbs } from './api/verb.ts';
import { readEventRows } from './arguments.ts';
import { type CliDeps, CliError, exitCodes, misused } from './deps.ts';
import { register as registerErase } from './erase.ts';
import type { Examined } from './examine-destinations.ts';
import { hostVerbs, withFirstKey } from './host-verbs.ts';
import { tableLines } from './text.ts';
import { register as registerVerify } from './verify.ts';

/** The groups of commands, as the help lists them. */
const groups = {
  api: 'Over the API (SLUICE_URL, SLUICE_KEY):',
  here: 'On the machine of the service (DATABASE_URL):',
} as const;

/** Commands that have commands of their own. */
const commands = {
  exports: 'batch exports of a project',
  runs: 'runs of an export',
  coverage: 'the state of every data interval',
  transformations: 'the chain of steps that changes rows before they are exported',
  causes: 'what keeps exports of all customers from their data (the key of an operator)',
  notifications: 'who is notified of changes: webhooks and e-mail',
  organizations: 'organizations (the key of an operator)',
  projects: 'projects of an organization (the key of an operator)',
  keys: 'API keys of an organization, and of operators (the key of an operator)',
  models: 'models that can be exported (MODELS_FILE)',
  eras: 'history of the database: a restore, a copy or a failover begins a new era',
  work: 'work besides runs that was set aside, because three processes died during it',
  offboardings:
    'organizations and projects that were deleted, and what stays in their buckets (the key of an operator)',
} as const;

/** All commands. Each imports its modules when it is called: all of them take a second to load. */
export function createProgram(deps: CliDeps, version: string): Command {
  const program = new Command('sluice')
    .description('Exports rows from PostgreSQL to S3 on a schedule: every row exactly once.')
    .version(version)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => deps.terminal.out(text),
      writeErr: (text) => deps.terminal.err(text),
    });
  program.hook('preAction', (_, command) => refuseEmptyValues(command));
  program.commandsGroup(groups.api);
  registerVerbs(program, deps, commands, {
    ...taskVerbs,
    ...{ ...exportVerbs, ...runVerbs, ...recordVerbs, ...stepVerbs, ...causeVerbs },
    ...{ ...targetVerbs, ...withFirstKey(tenantVerbs) },
  });
  program
    .command('admin', { hidden: true })
    .allowUnknownOption()
    .argument('[words...]')
    .action(() => {
      throw misused(
        'Leave out "admin": use `sluice organizations`, `sluice projects` or `sluice keys`.',
      );
    });
  program.commandsGroup(groups.here);
  registerVerbs(program, deps, commands, doctorVerb);
  registerQuickstart(program, deps);
  registerVerbs(program, deps, commands, hostVerbs);
  registerVerify(program, deps);
  registerErase(program, deps);
  program.commandsGroup('Other:');
  program.helpCommand('help [command]', 'show the options of a command');
  return program;
}

/** The only text that may be empty: it clears what is stored. */
const mayBeEmpty: readonly unknown[] = ['--description'];

/** An empty value is a script's variable that is not set. As a filter it would select everything. */
function refuseEmptyValues(command: Command): void {
  const isEmpty = (value: unknown) => typeof value === 'string' && value.trim() === '';
  for (const [position, argument] of command.registeredArguments.entries()) {
    if (isEmpty(command.args[position]))
      throw emptyValue(`<${argument.name()}>`, argument.required);
  }
  for (const option of command.options) {
    const value: unknown = command.getOptionValue(option.attributeName());
    if ([value].flat().some(isEmpty) && !mayBeEmpty.includes(option.long)) {
      throw emptyValue(option.long ?? option.flags, option.mandatory);
    }
  }
}

const emptyValue = (named: string, isRequired: boolean) =>
  misused(`${named} is empty. Enter a value${isRequired ? '' : ', or leave it out'}.`);

/** `sluice quickstart`: the service with example data. */
function registerQuickstart(program: Command, deps: CliDeps): void {
  program
    .command('quickstart')
    .description('start everything, export a day of example events to S3 and verify them')
    .option('--exit', 'exit afterwards, with 0 if everything was verified')
    .option(
      '--rows <number>',
      'how many example events the first start writes',
      readEventRows,
      200_000,
    )
    .action(async ({ exit = false, rows }: { exit?: boolean; rows: number }) => {
      const { runQuickstart } = await import('../quickstart/run.ts');
      await runQuickstart({ exit, rows }, deps);
    });
}

const colours = { ok: 'green', warning: 'yellow', failed: 'red' } as const;

/** `sluice doctor`: what an operator checks first. */
const doctorVerb: Verbs = {
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
