import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from '../../state/store/database/database.ts';
import { findProject } from '../../state/store/tenants/tenants.ts';
import {
  createOrganization,
  createProject,
} from '../../service/use-cases/tenants/change-tenants.ts';
import { issueKey } from '../../service/use-cases/tenants/issue-key.ts';

/** The tenant that the quickstart made, kept in the data directory for the next start. */
export interface QuickstartTenant {
  readonly projectId: number;
  /** A key with all scopes; readable only by its owner, like the database's password. */
  readonly key: string;
  /** The key of an operator: metrics, queues and all organizations. */
  readonly operatorKey: string;
}

/** The organization, project and key of the last start, or new ones. */
export async function ensureTenant(db: Database, dataDir: string): Promise<QuickstartTenant> {
  const path = join(dataDir, 'quickstart.json');
  const kept = await readFile(path, 'utf8').then(
    (text) => JSON.parse(text) as QuickstartTenant,
    () => null,
  );
  if (kept && (await findProject(db, kept.projectId))) return kept;
  const organization = await createOrganization(db, 'Quickstart');
  const project = await createProject(db, { organizationId: organization.id, name: 'Quickstart' });
  const issued = await issueKey(db, {
    organizationId: organization.id,
    projectIds: null,
    name: 'Quickstart',
    scopes: ['*'],
    expiresAt: null,
  });
  const operator = await issueKey(db, {
    organizationId: null,
    projectIds: null,
    name: 'Quickstart operator',
    scopes: ['*'],
    expiresAt: null,
  });
  const tenant = { projectId: project.id, key: issued.key, operatorKey: operator.key };
  await writeFile(path, `${JSON.stringify(tenant)}\n`, { mode: 0o600 });
  return tenant;
}
