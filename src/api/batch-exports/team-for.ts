import type { Sql } from '../../store/database.ts';
import type { Reach } from '../../store/reach.ts';
import { listProjects } from '../../store/tenants.ts';
import { invalid } from '../api-error.ts';

/**
 * The project that a new record belongs to: the path's, else the body's team_id, else the
 * organization's only one.
 *
 * @throws ApiError 400 for a foreign team_id, or where there is a choice to make
 */
export async function teamFor(sql: Sql, reach: Reach, said: number | undefined): Promise<number> {
  if (reach.teamId !== null) return reach.teamId;
  const own = (await listProjects(sql, reach.organizationId)).map(({ id }) => id);
  if (said !== undefined) {
    if (own.includes(said)) return said;
    const detail = 'The organization has no project of this id.';
    throw invalid({ code: 'does_not_exist', detail, attr: 'team_id' });
  }
  const [only] = own;
  if (only !== undefined && own.length === 1) return only;
  const detail = 'The organization has several projects: name one.';
  throw invalid({ code: 'required', detail, attr: 'team_id' });
}
