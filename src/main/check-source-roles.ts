import type { Foundation } from './foundation.ts';
import { StartError } from './wait-for-database.ts';

/** A source that takes longer to answer is not checked. */
const patienceMs = 10_000;

/**
 * Checks what the roles of the sources may do. In production a role with excess rights stops the start;
 * elsewhere, and if a source is unreachable, a warning is logged.
 *
 * @throws StartError
 */
export async function checkSourceRoles({
  config,
  logger,
  models,
  sourceOf,
}: Pick<Foundation, 'config' | 'logger' | 'models' | 'sourceOf'>): Promise<void> {
  const sources = new Map(models.map(({ model }) => [sourceOf(model.name), model.name]));
  const checks = [...sources].map(async ([source, model]) => {
    try {
      const rights = await source.findExcessRights(AbortSignal.timeout(patienceMs));
      return rights.length === 0
        ? []
        : [`The source role of model ${model} ${rights.join(' and ')}.`];
    } catch (error) {
      logger.warn({ err: error, model }, 'the rights of the source role could not be checked');
      return [];
    }
  });
  const faults = (await Promise.all(checks)).flat();
  if (faults.length === 0) return;
  const remedy =
    'Set SOURCE_DATABASE_URL to a role that may only read what is exported; docs/security.md shows how.';
  const text = `${faults.join(' ')} ${remedy}`;
  if (config.NODE_ENV !== 'production' || config.ALLOW_PRIVILEGED_SOURCE) {
    logger.warn(text);
    return;
  }
  throw new StartError(`${text} ALLOW_PRIVILEGED_SOURCE=true starts Sluice anyway.`);
}
