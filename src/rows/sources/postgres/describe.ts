import type { Description, SourceRequest } from '../source.ts';
import type { SnapshotOptions } from './begin-snapshot.ts';
import { findCulprit } from './culprit.ts';
import { explain } from './explain.ts';
import type { PlanSelect } from './plan.ts';

/**
 * The columns of a request's rows. The server parses and plans the statement that would read them, and checks
 * the role's rights; it runs nothing.
 *
 * @throws SluiceError that names what is wrong: the query, the event filters or the model
 */
export async function describeRequest(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<Description> {
  try {
    return await explain(options, plan, request, signal);
  } catch (error) {
    throw await findCulprit(error, options, plan, request, signal);
  }
}
