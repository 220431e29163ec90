import { type Command, Option } from 'commander';
import {
  notificationTypes,
  targetKinds,
  webhookFormats,
} from '../../../foundation/domain/notification.ts';
import { readList, readWebhook } from '../arguments.ts';
import { type CliDeps, CliError, misused } from '../deps.ts';
import { paintFor, shortName, tableLines } from '../text.ts';
import type { Api } from './api.ts';
import { confirm } from './confirm.ts';
import { registerDeliveries, type TargetOptions } from './deliveries.ts';
import { print } from './print.ts';
import { openApi, withApi } from './open-api.ts';
import type { NotificationTarget } from './types.ts';

interface SettingOptions extends TargetOptions {
  readonly kind?: NotificationTarget['kind'];
  readonly url?: string;
  readonly webhook?: string;
  readonly format?: NotificationTarget['format'];
  readonly recipients?: string[];
  readonly events?: string[];
  readonly description?: string;
}

/** `sluice notifications …`: who is notified of changes. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of verbs
export function registerNotifications(program: Command, deps: CliDeps): void {
  const group = program
    .command('notifications')
    .description('who is notified of changes: webhooks and e-mail');
  const add = (words: string, description: string) =>
    withApi(group.command(words).description(description)).option(
      '--installation',
      'targets of the whole installation, with the key of an operator',
    );
  const withSettings = (command: Command) =>
    command
      .option(
        '--webhook <url>',
        'address that a webhook posts to; it is stored encrypted',
        readWebhook,
      )
      .option('--format <format>', `of the body of a webhook: ${webhookFormats.join(', ')}`)
      .option('--recipients <list>', 'e-mail addresses, separated by commas', readList)
      .option('--events <list>', `such as ${notificationTypes.slice(0, 2).join(',')}`, readList)
      .option('--description <text>', 'a name for people');

  add('list', 'list the targets, newest first').action((options: TargetOptions) =>
    list(deps, options),
  );
  withSettings(add('create', 'create a target; the secret of a webhook is shown once'))
    .addOption(new Option('--kind <kind>', 'default: webhook').choices([...targetKinds]))
    .action(async (options: SettingOptions) => {
      const body = { ...settingsOf(options), kind: options.kind ?? kindOf(options) };
      const created = await targetsOf(deps, options).create(body);
      print(deps, options, created, () => [
        ...lines(deps, [created]),
        ...('secret' in created && created.secret ? [`secret  ${created.secret}`] : []),
      ]);
    });
  withSettings(add('edit', 'change a target; what is not named keeps its value'))
    .argument('<target>', 'its id')
    .action((id: string, options: SettingOptions) =>
      change(deps, id, options, settingsOf(options)),
    );
  add('enable', 'enable a target; its failures are forgotten')
    .argument('<target>', 'its id')
    .action((id: string, options: TargetOptions) => change(deps, id, options, { enabled: true }));
  add('disable', 'disable a target; what waits for it is not sent')
    .argument('<target>', 'its id')
    .action((id: string, options: TargetOptions) => change(deps, id, options, { enabled: false }));
  add('test', 'send a test to a target; exits with 1 if it was not delivered')
    .argument('<target>', 'its id')
    .action(async (id: string, options: TargetOptions) => {
      const tested = await targetsOf(deps, options).test(id);
      print(deps, options, tested, () => [`${tested.answer} in ${tested.latency_ms} ms`]);
      if (!tested.delivered) throw new CliError(`The test was not delivered: ${tested.answer}.`);
    });
  add('rotate', 'give a webhook a new secret; the one before signs too for a day')
    .argument('<target>', 'its id')
    .action(async (id: string, options: TargetOptions) => {
      const rotated = await targetsOf(deps, options).rotate(id);
      print(deps, options, rotated, () => [`secret  ${rotated.secret ?? ''}`]);
    });
  registerDeliveries(add, deps);
  add('delete', 'delete a target and its log')
    .argument('<target>', 'its id')
    .option('--yes', 'do not ask')
    .action(async (id: string, options: TargetOptions & { readonly yes?: boolean }) => {
      await confirm(deps.terminal, `Delete the notification target ${id}?`, options.yes ?? false);
      await targetsOf(deps, options).remove(id);
      print(deps, options, { deleted: id }, () => ['deleted']);
    });
}

const kindOf = ({ recipients }: SettingOptions): NotificationTarget['kind'] =>
  recipients === undefined ? 'webhook' : 'email';

/** Only what was named. */
function settingsOf(options: SettingOptions): Readonly<Record<string, unknown>> {
  const { webhook: url, format, recipients, events, description } = options;
  const known: readonly string[] = notificationTypes;
  const unknown = (events ?? []).filter((event) => !known.includes(event));
  if (unknown.length > 0) {
    throw misused(`--events: unknown ${unknown.join(', ')}. The events are ${known.join(', ')}.`);
  }
  const named = Object.entries({ url, format, recipients, events, description });
  return Object.fromEntries(named.filter(([, value]) => value !== undefined));
}

async function list(deps: CliDeps, options: TargetOptions): Promise<void> {
  const results = await targetsOf(deps, options).list();
  print(deps, options, results, () => lines(deps, results));
}

async function change(
  deps: CliDeps,
  id: string,
  options: TargetOptions,
  body: Readonly<Record<string, unknown>>,
): Promise<void> {
  if (Object.keys(body).length === 0) {
    throw misused('Name what to change, such as --events.');
  }
  const changed = await targetsOf(deps, options).change(id, body);
  print(deps, options, changed, () => lines(deps, [changed]));
}

function lines(deps: CliDeps, targets: readonly NotificationTarget[]): readonly string[] {
  if (targets.length === 0) return ['none'];
  const rows = targets.map((target) => [
    target.id,
    target.kind,
    target.enabled ? (target.failing_since === null ? 'enabled' : 'failing') : 'disabled',
    target.url_preview ?? target.recipients.join(', '),
    shortName(target.description),
    namesOf(target.events),
  ]);
  const head = ['TARGET', 'KIND', 'STATE', 'ADDRESS', 'DESCRIPTION', 'EVENTS'];
  return tableLines(head, rows, paintFor(deps.terminal));
}

/** Eighteen names would hide what a person looks for. */
const namesOf = (events: readonly string[]) =>
  notificationTypes.every((type) => events.includes(type)) ? 'all' : events.join(', ');

/** The targets of a project, or of the installation: the same operations. */
function targetsOf(deps: CliDeps, options: TargetOptions) {
  return targetCalls(openApi(deps, options), options.installation ?? false, optionOf);
}

const optionOf = {
  kind: '--kind',
  url: '--webhook',
  format: '--format',
  recipients: '--recipients',
  events: '--events',
  description: '--description',
};

const notFound = 'There is no such target. `sluice notifications list` lists them.';

/**
 * @param ofInstallation with the key of an operator
 * @param optionOf the options that fields come from; a file has the fields themselves
 */
export function targetCalls(
  api: Api,
  ofInstallation: boolean,
  optionOf: Readonly<Record<string, string>> = {},
) {
  // Both have the same operations.
  const call = ofInstallation ? (api.callAdmin as Api['call']) : api.call;
  const all = '/notification_targets';
  const one = '/notification_targets/{id}';
  const at = (id: string) => ({ path: { id }, notFound });
  return {
    list: async () => (await call('get', all, { query: { limit: 100 } })).results,
    create: (body: object) => call('post', all, { body, optionOf }),
    change: (id: string, body: object) => call('patch', one, { ...at(id), body, optionOf }),
    test: (id: string) => call('post', `${one}/test`, at(id)),
    rotate: (id: string) => call('post', `${one}/rotate_secret`, at(id)),
    remove: (id: string) => call('delete', one, at(id)),
  };
}
