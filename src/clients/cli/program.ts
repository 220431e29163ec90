import { Command } from 'commander';
import { causeVerbs } from './api/cause-verbs.ts';
import { exportVerbs } from './api/export-verbs.ts';
import { recordVerbs } from './api/record-verbs.ts';
import { runVerbs } from './api/run-verbs.ts';
import { stepVerbs } from './api/step-verbs.ts';
import { targetVerbs } from './api/target-verbs.ts';
import { taskVerbs } from './api/task-verbs.ts';
import { tenantVerbs } from './api/tenant-verbs.ts';
import { registerVerbs } from './api/verb.ts';
import { type CliDeps, misused } from './deps.ts';
import { doctorVerb } from './doctor.ts';
import { register as registerErase } from './erase.ts';
import { hostVerbs, withFirstKey } from './host-verbs.ts';
import { register as registerQuickstart } from './quickstart.ts';
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
