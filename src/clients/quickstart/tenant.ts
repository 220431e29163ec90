import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from '../../state/store/database/database.ts';
import { findProject } from '../../state/store/tenants/tenants.ts';
import {
  createOrganization,
  createProject,
} from '../../service/use-cases/tenants/change-tenants.ts';
import { issueKey } from '../../service/use-cases/tenants/keys.ts';

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
  const saved = await readFile(path, 'utf8').then(
    (text) => JSON.parse(text) as QuickstartTenant,
    () => null,
  );
  if (saved && (await findProject(db, saved.projectId))) return saved;
  const { id: organizationId } = await createOrganization(db, 'Quickstart');
  const project = await createProject(db, { organizationId, name: 'Quickstart' });
  const all = { projectIds: null, scopes: ['*'], expiresAt: null } as const;
  const issued = await issueKey(db, { ...all, organizationId, name: 'Quickstart' });
  const operator = await issueKey(db, {
    ...all,
    organizationId: null,
    name: 'Quickstart operator',
  });
  const tenant = { projectId: project.id, key: issued.key, operatorKey: operator.key };
  await writeFile(path, `${JSON.stringify(tenant)}\n`, { mode: 0o600 });
  return tenant;
}
