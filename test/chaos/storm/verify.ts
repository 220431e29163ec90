import type { VerifyReport } from '../../../src/service/verify/verify-exports.ts';
import { runCli } from '../../support/cli.ts';
import { randomOf } from '../../support/random.ts';
import { act, type World } from './world.ts';

/**
 * Runs `sluice verify` again and again beside all else. What it cannot read in the storm is no alarm; a broken promise is one,
 * for nothing in the storm breaks any.
 */
export async function verifyBeside(world: World, signal: AbortSignal): Promise<void> {
  const { installation, exports, alarms, counts, seed } = world;
  const random = randomOf(seed, 'verify');
  // The models file names variables of the process, and the command runs in this one.
  const { STANDBY_URL, PRIMARY_URL } = installation.env;
  Object.assign(process.env, { STANDBY_URL, PRIMARY_URL });
  await act(
    signal,
    () => random.between(2_000, 8_000),
    async () => {
      const [first, ...others] = exports;
      if (!first) return;
      const { id } = random.pick([first, ...others]);
      const args = ['verify', '--json', '--export', id];
      const { out, err } = await runCli(args, { env: installation.env, signal });
      if (out === '') {
        world.unverified = err;
        return;
      }
      const { findings, results }: VerifyReport = JSON.parse(out);
      for (const { invariant, detail } of findings) alarms.add(`${invariant}: ${detail}`);
      if (results.some(({ failure }) => failure === null)) counts.verified += 1;
      else world.unverified = results.map(({ failure }) => failure).join(', ');
    },
  );
}
