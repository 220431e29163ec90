import type { Database } from '../../store/database.ts';
import { findBatchExport } from '../../store/exports.ts';
import { type Request, reachOf } from '../api.ts';
import { notFound } from '../api-error.ts';
import { isUuid } from '../validation/validator.ts';

/** A hook: the export that the path's parameter names, or 404. Runs before the body is read. */
export function loadBatchExport(db: Database, parameter: 'id' | 'batch_export_id') {
  return async (request: Request): Promise<void> => {
    const id = (request.params as Record<string, string>)[parameter] ?? '';
    const found = isUuid(id) ? await findBatchExport(db, reachOf(request), id) : null;
    if (!found) throw notFound();
    request.batchExport = found;
  };
}
