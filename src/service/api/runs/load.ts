import { notFound } from '../../../foundation/domain/problem.ts';
import { type FoundRun, findRun } from '../../../state/store/runs/runs.ts';
import { batchExportOf, type Request } from '../api.ts';
import { isUuid } from '../validation/validator.ts';

/** @throws Refusal (404) if the export of the path has no such run */
export async function loadRun(request: Request, id: string): Promise<FoundRun> {
  const { db } = request.context;
  const run = isUuid(id) ? await findRun(db, batchExportOf(request).id, id) : null;
  if (!run) throw notFound();
  return run;
}
