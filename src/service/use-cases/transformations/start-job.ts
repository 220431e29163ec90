import { checkConfigSize } from '../../../foundation/domain/config-size.ts';
import { sampleJob } from '../../../foundation/domain/plugin.ts';
import { notFound, Refusal, refuseIfAny } from '../../../foundation/domain/problem.ts';
import {
  askForSample,
  findTransformationConfig,
} from '../../../state/store/transformations/transformation-configs.ts';
import type { Actor, Context } from '../context.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import type { Step } from './create-config.ts';
import { findPlugins } from './plugins.ts';

/** Records a job of a step's plugin; it runs in the background. */
export async function startTransformationJob(
  context: Context,
  actor: Actor,
  teamId: number,
  id: number,
  job: { readonly type: string; readonly payload: Readonly<Record<string, unknown>> },
): Promise<Step> {
  refuseIfAny(checkConfigSize(job.payload, 'job__payload'));
  return context.db.transaction(async (tx) => {
    const step = await findTransformationConfig(tx, teamId, id, 'for update');
    if (!step) throw notFound();
    const plugin = (await findPlugins(tx, actor.organizationId, [step.plugin])).get(step.plugin);
    const offered = [sampleJob, ...(plugin?.jobs ?? [])].map(({ type }) => type);
    if (!offered.includes(job.type)) {
      const detail = `Unknown job. The jobs of the plugin are ${offered.join(', ')}.`;
      throw new Refusal({ code: 'invalid_choice', detail, attr: 'job__type' });
    }
    await askForSample(tx, id);
    const change = { field: 'job', before: null, after: job.type };
    await recordActivity(tx, actor, 'job started', 'transformation_config', step, [change]);
    return { step, plugin: plugin ?? null };
  });
}
