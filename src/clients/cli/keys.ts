import type { Command } from 'commander';
import { readClientSettings } from '../../foundation/config/client-settings.ts';
import type { Timestamp } from '../../foundation/domain/time.ts';
import { printRecord } from './answer.ts';
import type { Json } from './api/json.ts';
import { groupOf, type Verbs } from './api/verb.ts';
import { type CliDeps, CliError } from './deps.ts';

/**
 * The verbs, with the first key of an operator on the machine of the service: there is no key yet that could ask the API for one.
 */
export const withFirstKey = (verbs: Verbs): Verbs =>
  Object.fromEntries(
    Object.entries(verbs).map(([words, one]) => [
      words,
      words === 'keys create' ? { ...one, more: { ...one.more, instead: issueHere } } : one,
    ]),
  );

const issueHere = (deps: CliDeps, given: Json): Promise<object> | null => {
  const { operator, organization_id: organization, project_ids: projectIds } = given;
  if (!operator || organization !== undefined || readClientSettings(deps.terminal.env).key !== null)
    return null;
  return deps.withDatabase(async (db) => {
    const { issueKey } = await import('../../service/use-cases/tenants/issue-key.ts');
    const { apiKey, key } = await issueKey(db, {
      organizationId: null,
      projectIds: (projectIds as readonly number[] | undefined) ?? null,
      name: String(given.name),
      scopes: given.scopes as readonly string[],
      expiresAt: (given.expires_at as Timestamp | undefined) ?? null,
    });
    const { id, name, ...rest } = apiKey;
    return { id, key, name, ...rest };
  });
};

/** `sluice keys rotate-encryption` */
export function register(program: Command, deps: CliDeps): void {
  groupOf(program, 'keys')
    .command('rotate-encryption')
    .description(
      'on the machine of the service: encrypt all stored secrets with the first of ENCRYPTION_KEYS; first give every process that key; exits with 1 if a value was skipped',
    )
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { readConfig } = await import('../../foundation/config/config.ts');
      const { openSecretBox } = await import('../../main/encryption-keys.ts');
      const { rotateEncryption } = await import(
        '../../service/use-cases/installation/rotate-encryption.ts'
      );
      const secrets = await openSecretBox(readConfig(deps.terminal.env));
      const rotated = await deps.withDatabase((db) => rotateEncryption(db, secrets));
      printRecord(deps, json, rotated);
      if (rotated.skipped.length === 0) return;
      throw new CliError(
        `These values cannot be decrypted and did not change. Enter them again, and keep all keys until then:\n${rotated.skipped.join('\n')}`,
      );
    });
}
