import { ownStepsOf } from '../../../foundation/domain/recipe.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { findChain } from '../../../state/store/transformations/chains.ts';
import { refuseManySandboxes } from '../../use-cases/transformations/try-chain.ts';
import { actorOf, type Reply, type Request } from '../api.ts';
import type { CompareRows, Deps, ExportedRows } from '../options.ts';
import { untilClosed } from '../until-closed.ts';
import { type TestedDestination, testDestination } from './test-destination.ts';

/** What people look at before they save or run an export. All of it waits for a slot of the organization. */

const previewedRows = 100;

/**
 * Runs the checks of a destination, then that of the source.
 *
 * @param read an interval as the export has them
 */
export async function lookAtDestination(
  deps: Deps,
  request: Request,
  reply: Reply,
  read: { readonly model: string; readonly interval: DataInterval },
  destination: TestedDestination,
) {
  const { organizationId } = actorOf(request);
  const steps = await deps.tests.use(organizationId, untilClosed(reply), async () => {
    const source = await deps.checkSource?.(read.model, destination.teamId, read.interval);
    const checks = await testDestination(request.context, deps, destination);
    return source ? [...checks, source] : checks;
  });
  return { passed: steps.every(({ passed }) => passed), steps: [...steps] };
}

/** Reads the newest rows as they would be exported. @throws SluiceError, ApiError 429 */
export async function lookAtRows(deps: Deps, request: Request, reply: Reply, asked: ExportedRows) {
  const { previewRows, previews, sandboxes } = deps;
  const { organizationId } = actorOf(request);
  const signal = untilClosed(reply);
  const { teamId, transformations } = asked;
  const preview = () =>
    previews.use(organizationId, signal, () => previewRows(asked, previewedRows, signal));
  const chain = transformations ? await findChain(request.context.db, teamId) : [];
  const hasSandbox = refuseManySandboxes(ownStepsOf(chain), null);
  const { columns, rows } = await (hasSandbox
    ? sandboxes.use(organizationId, signal, preview)
    : preview());
  return { columns: [...columns], rows: rows.map((row) => [...row]) };
}

/** Compares intervals of a backfill with the source. @throws ApiError 429 */
export async function lookAtIntervals(
  { compareRows, previews }: Deps,
  request: Request,
  reply: Reply,
  asked: ExportedRows,
  intervals: Parameters<CompareRows>[1],
) {
  if (intervals.length === 0) return { intervals: [], leftOut: null };
  const { organizationId } = actorOf(request);
  const signal = untilClosed(reply);
  return previews.use(organizationId, signal, () => compareRows(asked, intervals, signal));
}
