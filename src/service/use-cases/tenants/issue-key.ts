import { type Problem, refuseIfAny } from '../../../foundation/domain/problem.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import { hashApiKey, mintApiKey } from '../../../foundation/security/api-keys.ts';
import { operatorScopes, scopes } from '../../../foundation/security/scopes.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import { type ApiKey, insertApiKey } from '../../../state/store/tenants/api-keys.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import { findOrganization, listProjects } from '../../../state/store/tenants/tenants.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';

export interface IssueKeyInput {
  /** Null: an operator's key. */
  readonly organizationId: string | null;
  /** Null: all projects of the organization. */
  readonly projectIds: readonly number[] | null;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly expiresAt: Timestamp | null;
}

/** A key as it is shown once. */
export interface IssuedKey {
  readonly apiKey: ApiKey;
  /** The key itself; it is not stored. */
  readonly key: string;
}

/**
 * Issues a key of an organization, or of an operator.
 *
 * @param keyId the operator's key that asks; null: the command line
 */
export async function issueKey(
  db: Transactor,
  input: IssueKeyInput,
  keyId: string | null = null,
): Promise<IssuedKey> {
  refuseIfAny(await checkKey(db, input));
  return db.transaction((tx) => storeNewKey(tx, input, 'created', keyId));
}

/** Everything that is wrong with a new key. */
export async function checkKey(db: Sql, input: IssueKeyInput): Promise<Problem[]> {
  const { organizationId } = input;
  const allowedScopes = organizationId === null ? operatorScopes : scopes;
  const problems = [...checkName(input.name), ...checkScopes(input.scopes, allowedScopes)];
  const organization = organizationId && (await findOrganization(db, organizationId));
  if (organizationId === null) {
    if (input.projectIds !== null)
      problems.push(missing('project', 'The key of an operator has no projects.'));
  } else if (!organization) {
    problems.push(missing('organization', `There is no organization ${organizationId}.`));
  } else {
    const own = (await listProjects(db, organization.id)).map(({ id }) => id);
    for (const id of input.projectIds ?? []) {
      if (!own.includes(id))
        problems.push(missing('project', `The organization has no project ${id}.`));
    }
  }
  if (input.expiresAt !== null && Date.parse(input.expiresAt) <= (await readNow(db))) {
    const detail = `${input.expiresAt} is in the past: the key would never be valid. Choose a later time.`;
    problems.push({ code: 'invalid_input', detail, attr: 'expires_at' });
  }
  return problems;
}

/** Mints and stores a key within a transaction. */
export async function storeNewKey(
  tx: Sql,
  input: IssueKeyInput,
  action: string,
  keyId: string | null = null,
): Promise<IssuedKey> {
  const key = mintApiKey();
  const apiKey = await insertApiKey(tx, { ...input, hash: hashApiKey(key) });
  const change = { field: 'scopes', before: null, after: apiKey.scopes };
  const by = { organizationId: input.organizationId, keyId };
  await recordActivity(tx, by, action, 'api_key', { id: apiKey.id }, [change]);
  return { apiKey, key };
}

/** Checks the name of an organization, a project or a key. */
export function checkName(name: string): Problem[] {
  if (name.trim() === '') {
    return [{ code: 'blank', detail: 'The name may not be blank.', attr: 'name' }];
  }
  if (name.length > 400) {
    return [
      { code: 'max_length', detail: 'The name may have at most 400 characters.', attr: 'name' },
    ];
  }
  return [];
}

function checkScopes(asked: readonly string[], scopesOfKind: readonly string[]): Problem[] {
  const allowed = [...scopesOfKind, '*'];
  if (asked.length === 0) {
    const detail = `Name at least one scope. The scopes are ${allowed.join(', ')}.`;
    return [{ code: 'required', detail, attr: 'scopes' }];
  }
  return asked
    .filter((scope) => !allowed.includes(scope))
    .map((scope) => ({
      code: 'invalid_choice',
      detail: `Unknown scope "${scope}". The scopes are ${allowed.join(', ')}.`,
      attr: 'scopes',
    }));
}

function missing(attr: string, detail: string): Problem {
  return { code: 'does_not_exist', detail, attr };
}
