import {
  invalid,
  notFound,
  orNotFound,
  type Problem,
  refuseIfAny,
} from '../../../foundation/domain/problem.ts';
import { hashApiKey, mintApiKey } from '../../../foundation/security/api-keys.ts';
import { operatorScopes, scopes } from '../../../foundation/security/scopes.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import {
  type ApiKey,
  findApiKey,
  insertApiKey,
  type NewApiKey,
  revokeApiKey,
} from '../../../state/store/tenants/api-keys.ts';
import { findOrganization, listProjects } from '../../../state/store/tenants/tenants.ts';

export type IssueKeyInput = Omit<NewApiKey, 'hash'>;

export interface IssuedKey {
  readonly apiKey: ApiKey;
  /** The key itself; it is not stored. */
  readonly key: string;
}

/** Issues a key of an organization, or of an operator. @param keyId the operator's key that asks; null: the command line */
export async function issueKey(
  db: Transactor,
  input: IssueKeyInput,
  keyId: string | null = null,
): Promise<IssuedKey> {
  refuseIfAny(await checkKey(db, input));
  return db.transaction((tx) => storeNewKey(tx, input, 'created', keyId));
}

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
    problems.push(invalid('expires_at', detail));
  }
  return problems;
}

async function storeNewKey(
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

export function checkName(name: string): Problem[] {
  if (name.trim() === '') {
    return [{ code: 'blank', detail: 'The name may not be blank.', attr: 'name' }];
  }
  const detail = 'The name may have at most 400 characters.';
  return name.length > 400 ? [{ code: 'max_length', detail, attr: 'name' }] : [];
}

function checkScopes(asked: readonly string[], scopesOfKind: readonly string[]): Problem[] {
  const allowed = [...scopesOfKind, '*'];
  const list = `The scopes are ${allowed.join(', ')}.`;
  if (asked.length === 0) {
    return [{ code: 'required', detail: `Name at least one scope. ${list}`, attr: 'scopes' }];
  }
  const unknown = asked.filter((scope) => !allowed.includes(scope));
  return unknown.map((scope) => {
    return { code: 'invalid_choice', detail: `Unknown scope "${scope}". ${list}`, attr: 'scopes' };
  });
}

function missing(attr: string, detail: string): Problem {
  return { code: 'does_not_exist', detail, attr };
}

/** Revokes a key immediately; a revoked key does not change. */
export async function revokeKey(db: Transactor, id: string, keyId: string | null = null) {
  return db.transaction(async (tx) => {
    const revoked = orNotFound(await revokeApiKey(tx, id, 0));
    await recordEnd(tx, revoked, 'revoked', keyId);
    return revoked;
  });
}

/** Issues a key with the rights of another key, which stays valid for `overlapSeconds`. A revoked key cannot be rotated. */
export async function rotateKey(
  db: Transactor,
  id: string,
  overlapSeconds: number,
  keyId: string | null = null,
): Promise<IssuedKey> {
  return db.transaction(async (tx) => {
    const old = await findApiKey(tx, id);
    if (!old || old.revokedAt !== null) throw notFound();
    const ended = orNotFound(await revokeApiKey(tx, id, overlapSeconds));
    await recordEnd(tx, ended, 'rotated', keyId);
    return storeNewKey(tx, old, 'created', keyId);
  });
}

async function recordEnd(tx: Sql, key: ApiKey, action: string, keyId: string | null) {
  const change = { field: 'revoked_at', before: null, after: key.revokedAt };
  const by = { organizationId: key.organizationId, keyId };
  await recordActivity(tx, by, action, 'api_key', { id: key.id }, [change]);
}
