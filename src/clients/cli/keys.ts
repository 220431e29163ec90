import type { Command } from 'commander';
import type { Timestamp } from '../../foundation/domain/time.ts';
import type { ApiKey } from '../../state/store/tenants/api-keys.ts';
import type { IssuedKey } from '../../service/use-cases/tenants/issue-key.ts';
import { printRecord, printRecords } from './answer.ts';
import { collectProjectIds, readList, readSeconds, readTime, readUuid } from './arguments.ts';
import { type CliDeps, CliError, misused } from './deps.ts';

interface CreateOptions {
  readonly organization?: string;
  readonly operator?: boolean;
  readonly project?: number[];
  readonly scopes: string[];
  readonly expiresAt?: Timestamp;
  readonly name: string;
  readonly json?: boolean;
}

/** `sluice keys …` */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of verbs
export function register(program: Command, deps: CliDeps): void {
  const keys = program.command('keys').description('API keys of an organization, and of operators');

  keys
    .command('create')
    .description('issue a key; it is shown only once')
    .option('--organization <id>', 'the organization that owns it', readUuid)
    .option(
      '--operator',
      'a key of an operator: all organizations over /api/admin, metrics and queues; no rows of a customer',
    )
    .option('--project <id>', 'allow only this project; may be repeated', collectProjectIds)
    .requiredOption(
      '--scopes <list>',
      'such as batch_export:read,plugin:write, of an operator operator:read,operator:write, or *',
      readList,
    )
    .option('--expires-at <time>', 'time of expiry, ISO 8601', readTime)
    .requiredOption('--name <name>', 'name of the key')
    .option('--json', 'print JSON')
    .action(async (options: CreateOptions) => {
      refuseBoth(options);
      const { issueKey } = await import('../../service/use-cases/tenants/issue-key.ts');
      const issued = await deps.withDatabase((db) =>
        issueKey(db, {
          organizationId: options.organization ?? null,
          projectIds: options.project ?? null,
          name: options.name,
          scopes: options.scopes,
          expiresAt: options.expiresAt ?? null,
        }),
      );
      printRecord(deps, options.json, issuedView(issued));
    });

  keys
    .command('list')
    .description('list the keys of an organization, oldest first')
    .option('--organization <id>', 'the organization', readUuid)
    .option('--operator', 'the keys of operators')
    .option('--json', 'print JSON')
    .action(async (options: Pick<CreateOptions, 'organization' | 'operator' | 'json'>) => {
      const { organization, json } = options;
      refuseBoth(options);
      const { listApiKeys } = await import('../../state/store/tenants/api-keys.ts');
      const listed = await deps.withDatabase((db) => listApiKeys(db, organization ?? null));
      printRecords(deps, json, listed.map(view));
    });

  keys
    .command('revoke')
    .description('revoke a key immediately')
    .argument('<id>', "the key's id", readUuid)
    .option('--json', 'print JSON')
    .action(async (id: string, { json }: { json?: boolean }) => {
      const { revokeKey } = await import('../../service/use-cases/tenants/revoke-key.ts');
      printRecord(deps, json, view(await deps.withDatabase((db) => revokeKey(db, id))));
    });

  keys
    .command('rotate')
    .description('issue a key with the same rights; the old key stays valid for the overlap')
    .argument('<id>', "the old key's id", readUuid)
    .option('--overlap <seconds>', 'how long both are valid', readSeconds, 3_600)
    .option('--json', 'print JSON')
    .action(async (id: string, { overlap, json }: { overlap: number; json?: boolean }) => {
      const { rotateKey } = await import('../../service/use-cases/tenants/revoke-key.ts');
      const rotated = await deps.withDatabase((db) => rotateKey(db, id, overlap));
      printRecord(deps, json, issuedView(rotated));
    });

  keys
    .command('rotate-encryption')
    .description(
      'encrypt all stored secrets with the first of ENCRYPTION_KEYS; first give every process that key; exits with 1 if a value was skipped',
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

/** A key is of an organization or of an operator. */
function refuseBoth({
  organization,
  operator = false,
}: Pick<CreateOptions, 'organization' | 'operator'>): void {
  if ((organization === undefined) === operator) return;
  throw misused('Name either --organization or --operator.');
}

function issuedView({ apiKey, key }: IssuedKey) {
  const { id, ...rest } = view(apiKey);
  return { id, key, ...rest };
}

function view({ id, name, ...rest }: ApiKey) {
  return { id, name, ...rest };
}
