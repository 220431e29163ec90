import type { VerifyReport } from '../../../src/service/verify/verify-exports.ts';
import { runCli } from '../../support/cli.ts';
import { randomOf } from './random.ts';
import { act, type World } from './world.ts';

/**
 * Runs `sluice verify` again and again beside all else. What it cannot read in the storm is no alarm; a broken promise is one,
 * for nothing in the storm breaks any.
 */
export async function verifyBeside(world: World, signal: AbortSignal): Promise<void> {
  const { installation, alarms, counts, seed } = world;
  const random = randomOf(seed, 'verify');
  await act(
    signal,
    () => random.between(2_000, 8_000),
    async () => {
      const { out } = await runCli(['verify', '--json'], { env: installation.env, signal });
      const { findings, results }: VerifyReport = JSON.parse(out);
      for (const { invariant, detail } of findings) alarms.add(`${invariant}: ${detail}`);
      if (results.some(({ failure }) => failure === null)) counts.verified += 1;
    },
  );
}
