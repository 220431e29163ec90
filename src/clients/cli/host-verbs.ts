import { readClientSettings } from '../../foundation/config/client-settings.ts';
import type { Config } from '../../foundation/config/config.ts';
import { inSnakeCase } from '../../foundation/domain/snake-case.ts';
import type { Timestamp } from '../../foundation/domain/time.ts';
import type { CheckedModel } from './check-models.ts';
import type { AddressGrants, TriggerStatement } from '../../main/models.ts';
import type { Json } from './api/json.ts';
import { type Called, type Field, here, type Verbs } from './api/verb.ts';
import { readProjectId } from './arguments.ts';
import { type CliDeps, CliError } from './deps.ts';

const readSettings = async ({ terminal }: CliDeps, faults?: Map<string, string | null>) =>
  (await import('../../foundation/config/config.ts')).readConfig(terminal.env, faults);

const required = (read: (text: string) => unknown) => ({ read, isRequired: true }) as const;
const maxListed = 1_000;

/** Verbs that must run on the machine of the service. */
export const hostVerbs: Verbs = {
  migrate: here({
    about: 'migrate the schema of DATABASE_URL to this version',
    flags: {
      sourceRole: [
        '--source-role',
        'also create or correct the role of SOURCE_DATABASE_URL, with DATABASE_URL as superuser',
      ],
    },
    run: migrate,
    lines: ({ source_role: role }) => (role ? [`source role: ${role}`] : []),
    failure: ({ instead }) => instead ?? null,
  }),
  'keys rotate-encryption': here({
    about:
      'encrypt all stored secrets with the first of ENCRYPTION_KEYS; first give every process that key; exits with 1 if a value was skipped',
    async run({ deps }) {
      const { openSecretBox } = await import('../../main/encryption-keys.ts');
      const { rotateEncryption } = await import(
        '../../service/use-cases/installation/rotate-encryption.ts'
      );
      const secrets = await openSecretBox(await readSettings(deps));
      return deps.withDatabase((db) => rotateEncryption(db, secrets));
    },
    failure: ({ skipped }) =>
      skipped.length === 0
        ? null
        : `These values cannot be decrypted and did not change. Enter them again, and keep all keys until then:\n${skipped.join('\n')}`,
  }),
  'keys rotate-signing': here({
    about: 'make a new key that signs manifests and statements; the key before signs it',
    flags: {
      lost: [
        '--lost',
        'if the private key is lost: the new key signs itself, and customers must compare it',
      ],
    },
    async run({ deps, given }) {
      const { openSecretBox } = await import('../../main/encryption-keys.ts');
      const { NotRotated, rotateSigning } = await import(
        '../../service/use-cases/installation/signing.ts'
      );
      const secrets = await openSecretBox(await readSettings(deps));
      return deps.withDatabase((db) =>
        rotateSigning({ db, secrets }, given.lost === true).catch((error: unknown) => {
          throw error instanceof NotRotated ? new CliError(error.message) : error;
        }),
      );
    },
  }),
  'models list': here({
    about: 'list every model that exports can name',
    async run({ deps }) {
      const { listModels } = await import('./check-models.ts');
      const config = await readSettings(deps);
      return listModels(config, () => findSource(deps, config));
    },
  }),
  'models grants': here<readonly AddressGrants[]>({
    about: 'print the SQL that gives the role of each source what exports need',
    flags: {
      columns: [
        '--columns',
        'grant only the columns that the models read (look-backs then compare more)',
      ],
    },
    async run({ deps, given }) {
      const { listGrants } = await import('../../main/models.ts');
      const config = await readSettings(deps);
      return listGrants(config, () => findSource(deps, config), given.columns === true);
    },
    lines: (addresses) =>
      addresses.flatMap(({ address, about, statements }) => [
        `-- ${address}: ${about}`,
        ...statements.map((statement) => `${statement};`),
      ]),
  }),
  'models trigger': here<readonly TriggerStatement[]>({
    about:
      'print the SQL of column, trigger and index that exports of changes of a model need (and of its tombstones)',
    args: { name: ['<name>', 'the name of the model', required(String)] },
    async run({ deps, given }) {
      const { listTriggers } = await import('../../main/models.ts');
      const statements = listTriggers(await readSettings(deps), given.name as string);
      if (typeof statements === 'string') throw new CliError(statements);
      return statements;
    },
    lines: (statements) => statements.flatMap(({ about, sql }) => [`-- ${about}`, `${sql};`]),
  }),
  'models check': here<readonly CheckedModel[]>({
    about: 'check every model against its database; exits with 1 if an export would fail',
    flags: {
      project: ['--project <id>', 'only for this project (default: all projects)', readProjectId],
    },
    run: ({ deps, given }) => checkModels(deps, given.project as number | undefined),
    lines: (checked) => checked.flatMap(reportLines),
    failure(checked) {
      const failing = checked.filter(({ findings }) =>
        findings.some(({ severity }) => severity === 'error'),
      );
      if (failing.length === 0) return null;
      return `Cannot be exported: ${failing.map(({ model }) => model).join(', ')}.`;
    },
  }),
  'eras list': here({
    about: 'list the eras, oldest first',
    async run({ deps }) {
      const { currentEra, listEras } = await import('../../state/store/database/eras.ts');
      return deps.withDatabase(async (db) => {
        await currentEra(db);
        return listEras(db);
      });
    },
  }),
  'eras accept': here({
    about:
      'allow work on a restored or copied database, and on files of a lost history; first stop every other copy for good',
    async run({ deps }) {
      const { acceptCurrentEra } = await import(
        '../../service/use-cases/installation/accept-era.ts'
      );
      return deps.withDatabase(acceptCurrentEra);
    },
  }),
  'work list': here({
    about: `list it, oldest first, at most ${maxListed}`,
    async run({ deps }) {
      const { listWorkSetAside } = await import('../../state/store/files/guarded-work.ts');
      return deps.withDatabase((db) => listWorkSetAside(db, maxListed));
    },
  }),
  'work retry': here({
    about: 'let the workers do it again; first fix the cause',
    args: { id: ['[id]', 'the id of the list; default: all'] as Field },
    async run({ deps, given }) {
      const { retryWork } = await import('../../state/store/files/guarded-work.ts');
      return deps.withDatabase((db) => retryWork(db, (given.id as string | undefined) ?? null));
    },
  }),
};

/** The first key of an operator is made on the machine of the service: no key could ask the API for it. */
export const withFirstKey = ({ 'keys create': create, ...verbs }: Verbs): Verbs =>
  create === undefined
    ? verbs
    : {
        ...verbs,
        'keys create': {
          ...create,
          more: {
            ...create.more,
            run: ({ deps, given, send }) =>
              given.operator === true &&
              given.organization_id === undefined &&
              readClientSettings(deps.terminal.env).key === null
                ? issueHere(deps, given)
                : send(),
          },
        },
      };

async function issueHere(deps: CliDeps, given: Json): Promise<object> {
  const { issueKey } = await import('../../service/use-cases/tenants/keys.ts');
  const { apiKey, key } = await deps.withDatabase((db) =>
    issueKey(db, {
      organizationId: null,
      projectIds: (given.project_ids as readonly number[] | undefined) ?? null,
      name: String(given.name),
      scopes: given.scopes as readonly string[],
      expiresAt: (given.expires_at as Timestamp | undefined) ?? null,
    }),
  );
  return inSnakeCase({ ...apiKey, key });
}

interface Migrated {
  readonly migrated: readonly string[];
  /** Absent: it was not asked for. */
  readonly source_role?: string | null;
  /** The remedy, if no role was made. */
  readonly instead?: string;
}

/** The address that models without a database of their own are read by. */
async function findSource(deps: CliDeps, config: Config): Promise<string> {
  if (config.SOURCE_DATABASE_URL !== null) return config.SOURCE_DATABASE_URL;
  const { findSourceUrl } = await import('../../main/models.ts');
  return findSourceUrl(config, await deps.findDatabase());
}

async function migrate({ deps, given, isJson }: Called): Promise<Migrated> {
  const { prepareSchemas } = await import('../../main/prepare-schemas.ts');
  const config = await readSettings(deps);
  const url = await deps.findDatabase();
  const owner = given.sourceRole ? await findOwnerBeside(url) : null;
  const migrated = owner === null ? await prepareSchemas(config, url) : [];
  // The role can be refused after the tables are made.
  if (!isJson) deps.print(migrated.length > 0 ? `migrated: ${migrated.join(', ')}` : 'up to date');
  if (!given.sourceRole) return { migrated };
  const { ensureConfiguredRole } = await import('../../main/models.ts');
  const role = await ensureConfiguredRole(config, url);
  return 'role' in role
    ? { migrated, source_role: role.role }
    : { migrated, source_role: null, instead: role.instead };
}

/**
 * Tables that a superuser makes would belong to the superuser, and the service could not use them.
 *
 * @returns the role that owns the tables; null: the role that logs in may make them
 */
async function findOwnerBeside(url: string): Promise<string | null> {
  const { checkSchema, findOwnerBesideSuperuser, SchemaError } = await import(
    '../../state/store/database/migrate.ts'
  );
  const owner = await findOwnerBesideSuperuser(url);
  if (owner === null) return null;
  await checkSchema(url).catch((error: unknown) => {
    if (!(error instanceof SchemaError)) throw error;
    throw new CliError(
      `The tables of Sluice must belong to the role ${owner}. Run \`sluice migrate\` with its address in DATABASE_URL first, then this command again.`,
    );
  });
  return owner;
}

async function checkModels(
  deps: CliDeps,
  project: number | undefined,
): Promise<readonly CheckedModel[]> {
  const { checkModels: check } = await import('./check-models.ts');
  const faults = new Map<string, string | null>([
    ['SOURCE_DATABASE_URL', null],
    ['SOURCE_PRIMARY_URL', null],
  ]);
  const config = await readSettings(deps, faults);
  const sharedFault = [...faults.values()].find((fault) => fault !== null) ?? null;
  const { findTenantKey, listTenantKeys } = await import('../../state/store/tenants/tenants.ts');
  const { isModelExported } = await import('../../state/store/exports/exports.ts');
  // Models can be checked from a machine that does not reach the service's database.
  const isExported = (model: string) =>
    deps.withDatabase((db) => isModelExported(db, model)).catch(() => false);
  const tenantKeys = await deps
    .withDatabase((db) =>
      project ? findTenantKey(db, project).then((key) => [key]) : listTenantKeys(db),
    )
    .catch((error: unknown) => {
      if (project === undefined) return [];
      throw error;
    });
  return check(config, () => findSource(deps, config), tenantKeys, isExported, sharedFault);
}

function reportLines({ model, modes, findings, plan }: CheckedModel): readonly string[] {
  return [
    `${model}: ${findings.length === 0 ? 'good' : `${findings.length} to look at`}`,
    `  modes: ${modes.join(', ')}`,
    ...findings.map(({ severity, detail }) => `  ${severity}: ${detail}`),
    ...plan.map((step) => `  plan: ${step}`),
  ];
}
