import { notFound, Refusal } from '../../../foundation/domain/problem.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { findBatchExport } from '../../../state/store/exports/exports.ts';
import type { Reach } from '../../../state/store/tenants/tenants.ts';
import { listProjects } from '../../../state/store/tenants/tenants.ts';
import { recordLook } from '../../use-cases/operators/look-at-export.ts';
import { actorOf, isOperatorsLook, type Request, reachOf } from '../api.ts';
import { isUuid } from '../validation/validator.ts';

/** A hook: the export that the path's parameter names, or 404. Runs before the body is read. */
export function loadBatchExport(parameter: string) {
  return async (request: Request): Promise<void> => {
    const id = (request.params as Record<string, string>)[parameter] ?? '';
    const batchExport = isUuid(id)
      ? await findBatchExport(request.context.db, reachOf(request), id)
      : null;
    if (!batchExport) throw notFound();
    request.batchExport = batchExport;
    if (isOperatorsLook(request)) {
      const actor = { ...actorOf(request), organizationId: reachOf(request).organizationId };
      await recordLook(request.context, actor, batchExport);
    }
  };
}

/**
 * The project that a new record belongs to: the path's, else the body's team_id, else the
 * organization's only one.
 *
 * @throws Refusal (400) for a team_id of another organization, or if team_id is missing and needed
 */
export async function teamFor(sql: Sql, reach: Reach, said: number | undefined): Promise<number> {
  if (reach.teamId !== null) return reach.teamId;
  const own = (await listProjects(sql, reach.organizationId)).map(({ id }) => id);
  if (said !== undefined) {
    if (own.includes(said)) return said;
    const detail = 'The organization has no project with this id.';
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'team_id' });
  }
  const [only] = own;
  if (only !== undefined && own.length === 1) return only;
  const detail = 'The organization does not have exactly one project. Send the id of a project.';
  throw new Refusal({ code: 'required', detail, attr: 'team_id' });
}
