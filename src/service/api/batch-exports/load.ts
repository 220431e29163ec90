import { isDeepStrictEqual } from 'node:util';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { invalid, orNotFound, Refusal, refuseIfAny } from '../../../foundation/domain/problem.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { findBatchExport } from '../../../state/store/exports/exports.ts';
import { listProjects, type Reach } from '../../../state/store/tenants/tenants.ts';
import { recordLook } from '../../use-cases/operators/act-on-export.ts';
import { actorOf, batchExportOf, isOperatorsLook, type Request, reachOf } from '../api.ts';
import { isUuid } from '../validation/validator.ts';

/** A hook: the export that the path's parameter names, or 404. Runs before the body is read. */
export function loadBatchExport(parameter: string) {
  return async (request: Request): Promise<void> => {
    const id = (request.params as Record<string, string>)[parameter] ?? '';
    const { db } = request.context;
    const batchExport = orNotFound(
      isUuid(id) ? await findBatchExport(db, reachOf(request), id) : null,
    );
    request.batchExport = batchExport;
    if (isOperatorsLook(request)) {
      const actor = { ...actorOf(request), organizationId: reachOf(request).organizationId };
      await recordLook(request.context, actor, batchExport);
    }
  };
}

/** The project of a new record: the path's, else the body's team_id, else the only one. @throws Refusal (400) */
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

/** Refuses a body that asks for other rows, or another destination, than the export has: to ignore it would send too much. */
export function refuseOtherRows(request: Request): void {
  const batchExport = batchExportOf(request);
  const { hogql_query: other, ...fields } = request.repeated;
  const named = Object.entries({ ...fields, ...(other === undefined ? {} : { dsl_query: other }) });
  const detail =
    'The export has another value, and this operation does not change it. Update the export first, or leave the field out.';
  const others = named.filter(([name, value]) => !isSame(batchExport, name, value));
  refuseIfAny(others.map(([attr]) => invalid(attr, detail)));
}

function isSame(batchExport: BatchExport, name: string, value: unknown): boolean {
  const { dslQuery, querySchema, filters, model, transformations, destination } = batchExport;
  switch (name) {
    case 'dsl_query': {
      const { dsl_query: normalised } = (querySchema ?? {}) as { readonly dsl_query?: string };
      return value === dslQuery || (value !== null && value === normalised);
    }
    case 'filters': {
      const isEmpty = Array.isArray(value) && value.length === 0;
      return isDeepStrictEqual(isEmpty ? null : value, filters);
    }
    case 'model':
      return value === model;
    case 'transformations':
      return value === transformations;
    case 'destination':
      return repeats(value, destination);
    default:
      return true;
  }
}

/** A secret that is sent again is not stored in the config, and does not count. */
function repeats(value: unknown, { type, config }: BatchExport['destination']): boolean {
  const given = (value ?? {}) as { readonly type?: unknown; readonly config?: object };
  if (given.type !== undefined && given.type !== type) return false;
  return Object.entries(given.config ?? {}).every(
    ([name, setting]) => !(name in config) || isDeepStrictEqual(setting, config[name]),
  );
}
