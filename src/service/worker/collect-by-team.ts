import type { WorkGuard } from '../use-cases/work-guard.ts';
import type { ExecutorOptions } from './execute-run.ts';

/** For all that one sweep does for one team, whose store may hinder it. */
export const teamPatienceMs = 30_000;

/** Teams per sweep; as many as may be served at a time. */
const teamsPerSweep = 16;

/** Places of one team per sweep. */
const placesPerTeam = 20;

/** What the sweep needs to collect what runs have left. */
export interface SweepOptions
  extends Pick<ExecutorOptions, 'context' | 'connectors' | 'onSweepError' | 'stopping'> {
  readonly guard: WorkGuard;
}

/**
 * Lets the sweep serve each team with work, all at the same time: a team whose store hinders it does not
 * delay the others.
 *
 * @param serve does the next piece of a team's work; returns false if there is none left
 */
export async function collectByTeam(
  options: SweepOptions,
  findTeams: (limit: number) => Promise<readonly number[]>,
  serve: (teamId: number, signal: AbortSignal) => Promise<boolean>,
): Promise<void> {
  const { stopping, onSweepError } = options;
  const serveTeam = async (teamId: number): Promise<void> => {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(teamPatienceMs)]);
    for (let served = 0; served < placesPerTeam && !signal.aborted; served += 1) {
      if (!(await serve(teamId, signal))) return;
    }
  };
  const teams = await findTeams(teamsPerSweep);
  await Promise.all(teams.map((teamId) => serveTeam(teamId).catch(onSweepError)));
}
