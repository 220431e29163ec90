import { isDeepStrictEqual } from 'node:util';
import {
  notificationTypes,
  targetKinds,
  webhookFormats,
} from '../../../foundation/domain/notification.ts';
import type { CliDeps } from '../deps.ts';
import { plain } from '../text.ts';
import type { Api } from './api.ts';
import { type ApplyChoice, type Change, deletionOf } from './apply-changes.ts';
import { unknownIn } from './export-fields.ts';
import { expandVariables, type VariableNames, withoutVariables } from './export-spec.ts';
import { isRecord, type Json } from './json.ts';
import type { NotificationTarget } from './types.ts';

export type TargetChange = Change<string>;

const path = 'notification_targets';
const listTargets = async (api: Api): Promise<readonly NotificationTarget[]> =>
  (await api.call('get', path, { query: { limit: 100 } })).results;

const compared = ['format', 'recipients', 'events', 'enabled'] as const;
const fieldNames = ['description', 'kind', 'url', ...compared];

/**
 * Makes the notification targets of the project those of a file. They are found by their descriptions. The URL of a webhook is
 * a secret: a file has a variable, and it is sent if the target is new or `--secrets` asks for it.
 *
 * @param all `problems` gets a line for each fault
 */
export async function planTargets(
  deps: CliDeps,
  api: Api,
  listed: readonly unknown[],
  all: ApplyChoice & { readonly problems: string[] },
): Promise<readonly TargetChange[]> {
  const { problems, ...options } = all;
  const stored = await listTargets(api);
  const names = new Set<string>();
  const changes = listed.flatMap((entry, n): TargetChange[] => {
    const where = `notifications[${n}]`;
    if (!isRecord(entry) || typeof entry.description !== 'string' || entry.description === '') {
      problems.push(`${where}: a target needs a description, by which it is found again.`);
      return [];
    }
    problems.push(...unknownIn(entry, fieldNames, `${where}.`));
    problems.push(...wrongChoicesOf(entry).map((problem) => `${where}.${problem}`));
    const missing: string[] = [];
    const spec = expandVariables(entry, deps.terminal.env, (field, variable) =>
      (field === 'url' ? missing : problems).push(
        `${where}.${field}: the environment variable ${variable} is not set.`,
      ),
    ) as Json;
    const name = String(spec.description);
    if (names.has(name)) problems.push(`${where}.description: two targets have the same one.`);
    names.add(name);
    const { url } = entry;
    if (typeof url === 'string' && !/^\$\{[A-Za-z_]\w*\}$/.test(url)) {
      problems.push(
        `${where}.url can be a password of the receiver. Write \${VARIABLE} and set that environment variable.`,
      );
    }
    const sameName = stored.filter(({ description }) => description === name);
    if (sameName.length > 1) {
      const ids = sameName.map(({ id }) => id).join(', ');
      problems.push(
        `${where}: ${sameName.length} targets have this description: ${ids}. Edit or delete all but one.`,
      );
    }
    const kind = sameName[0]?.kind ?? spec.kind;
    if (spec.kind !== undefined && spec.kind !== kind) {
      problems.push(
        `${where}.kind: the stored target has the kind ${kind}, which cannot change. Give the new target another description.`,
      );
    }
    if (url !== undefined && kind === 'email') {
      problems.push(`${where}.url is only for the kind webhook. An e-mail target has recipients.`);
    }
    if (spec.recipients !== undefined && kind !== 'email') {
      problems.push(`${where}.recipients is only for the kind email. A webhook has a url.`);
    }
    const change = changeOf(name, spec, sameName[0], options.secrets ?? false);
    if ('url' in change.body) problems.push(...missing);
    return [change];
  });
  const others = options.prune ? stored.filter(({ description }) => !names.has(description)) : [];
  return [...changes, ...others.map(({ id, description }) => deletionOf(id, description))];
}

/** `events: unknown export.lat. …` */
function wrongChoicesOf({ kind, format, events }: Json): string[] {
  const wrong = (name: string, values: readonly unknown[], choices: readonly string[]) => {
    const unknown = values.filter((value) => !choices.includes(String(value)));
    if (unknown.length === 0) return [];
    return [`${name}: unknown ${plain(unknown.join(', '))}. Use ${choices.join(', ')}.`];
  };
  return [
    ...wrong('kind', kind === undefined ? [] : [kind], targetKinds),
    ...wrong('format', format === undefined ? [] : [format], webhookFormats),
    ...wrong('events', Array.isArray(events) ? events : [], notificationTypes),
  ];
}

/** The secrets of new webhooks, which no log of a deployment should have: how to get each. */
export const secretLines = (sent: readonly TargetChange[]): readonly string[] =>
  sent
    .filter(({ action, body }) => action === 'create' && body.url !== undefined)
    .map(
      ({ name, id }) =>
        `The secret that signs the requests to ${plain(name)} is not shown. To get one: \`sluice notifications rotate ${id}\``,
    );

function changeOf(
  name: string,
  spec: Json,
  stored: NotificationTarget | undefined,
  resendsSecrets: boolean,
): TargetChange {
  if (!stored) return { action: 'create', name, id: null, fields: [], body: spec };
  const differing = compared.filter(
    (field) => spec[field] !== undefined && !isSame(spec[field], stored[field]),
  );
  const sends = resendsSecrets && spec.url !== undefined ? ['url'] : [];
  const fields = [...differing, ...sends];
  const body = Object.fromEntries(fields.map((field) => [field, spec[field]]));
  const action = fields.length === 0 ? 'unchanged' : 'update';
  return { action, name, id: stored.id, fields, body };
}

/** The order of a list does not matter, nor what it names twice. */
const isSame = (wanted: unknown, stored: unknown): boolean =>
  Array.isArray(wanted) && Array.isArray(stored)
    ? isDeepStrictEqual(new Set(wanted.map(String)), new Set(stored.map(String)))
    : wanted === stored;

/**
 * The targets of the project as a file for `sluice apply` has them. It finds a target by its description, so those without one
 * of their own are left out.
 */
export async function targetsOfFile(
  api: Api,
  variables: VariableNames,
): Promise<{ readonly targets: readonly Json[]; readonly leftOut: number }> {
  const stored = (await listTargets(api)).toReversed();
  const named = stored.filter(
    ({ description: name }) =>
      name !== '' && stored.filter(({ description }) => description === name).length === 1,
  );
  const targets = named.map(({ kind, description, format, recipients, events, enabled }) => ({
    ...{ description: withoutVariables(description), kind },
    ...(kind === 'webhook'
      ? { url: `\${${variables.prefixOf(description)}_URL}`, format }
      : { recipients }),
    ...{ events, enabled },
  }));
  return { targets, leftOut: stored.length - named.length };
}
