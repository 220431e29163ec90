import { notFound } from '../../../foundation/domain/problem.ts';
import {
  findTransformationConfig,
  type TransformationConfig,
} from '../../../state/store/transformations/transformation-configs.ts';
import type { Step } from '../../use-cases/transformations/create-config.ts';
import { findPlugins } from '../../use-cases/transformations/plugins.ts';
import { type Request, reachOf } from '../api.ts';

declare module 'fastify' {
  interface FastifyRequest {
    step: Step | undefined;
  }
}

/** A hook: the transformation config that the path names, or 404. Runs before the body is read. */
export async function loadTransformationConfig(request: Request): Promise<void> {
  const id = idOf(request);
  const { db } = request.context;
  const config = id === null ? null : await findTransformationConfig(db, teamOf(request), id);
  if (!config) throw notFound();
  [request.step] = await withPlugins(request, [config]);
}

/** The step that the path names. Only behind `loadTransformationConfig`. */
export function stepOf(request: Request): Step {
  if (!request.step) throw new Error('no hook has set request.step on this route');
  return request.step;
}

/** The project of the path. */
export function teamOf(request: Request): number {
  const { teamId } = reachOf(request);
  if (teamId === null) throw new Error('the path of this route names no project');
  return teamId;
}

/** The id of the path; null if it cannot be one. */
export function idOf(request: Request): number | null {
  const { id = '' } = request.params as { id?: string };
  const value = /^\d{1,10}$/.test(id) ? Number(id) : 0;
  return value > 0 && value <= 2_147_483_647 ? value : null;
}

/** Joins steps to their plugins, in one query. */
export async function withPlugins(
  request: Request,
  steps: readonly TransformationConfig[],
): Promise<Step[]> {
  const ids = [...new Set(steps.map(({ plugin }) => plugin))];
  const plugins = await findPlugins(
    request.context.db,
    reachOf(request).organizationId,
    ids,
    false,
  );
  return steps.map((step) => ({ step, plugin: plugins.get(step.plugin) ?? null }));
}
