import { setTimeout as sleep } from 'node:timers/promises';
import { type DataInterval, describeInterval, type Instant } from '../domain/time.ts';
import type { OpenSearch, SearchedInterval } from '../main/erase.ts';
import type { Database } from '../store/database.ts';
import type { Attempt, IntervalRun } from '../store/interval-runs.ts';
import { type CliDeps, CliError } from './deps.ts';
import { plain, plural } from './text.ts';

/** What a search found. */
export interface Found {
  /** Intervals whose current files have the value. */
  readonly found: readonly SearchedInterval[];
  /** All current files of the intervals that were named. */
  readonly files: ReadonlySet<string>;
}

export interface Rewrite {
  readonly deps: CliDeps;
  readonly db: Database;
  readonly exportId: string;
  readonly destination: OpenSearch['destination'];
  /** Says nothing of progress. */
  readonly isQuiet: boolean;
  /** For all runs together. */
  readonly timeoutMs: number;
  /** Only intervals that start then or later; null: all. */
  readonly since: Instant | null;
  /**
   * Searches the current files.
   *
   * @param only intervals to search; null: all
   * @throws CliError if it is not sure about an interval
   */
  find(only: ((interval: DataInterval) => boolean) | null): Promise<Found>;
}

/**
 * A run that another command or schedule made may have read the source before the rows left it, so its interval is run
 * once more. That one began later, as does every other from then on.
 */
const maxRounds = 3;

/**
 * Runs the intervals again whose files have the value, and searches what they wrote. Attempts that were in progress as it
 * began may have read the rows before they left the source, so it waits for these too, and searches what they wrote.
 *
 * @returns how many intervals had it
 * @throws CliError that names what is left, unless no current file of these intervals has the value any more, and the
 *   replaced files are gone
 */
export async function rewriteFound(rewrite: Rewrite): Promise<number> {
  const { deps, db, exportId } = rewrite;
  const { listAttempts, listNewestRuns } = await import('../store/interval-runs.ts');
  const endsAt = performance.now() + rewrite.timeoutMs;
  const attempts = await listAttempts(db, exportId);
  const before = await rewrite.find(null);
  const rewritten = new Map(before.found.map((one) => [keyOf(one.interval), one.interval]));
  const replaced = new Set(before.found.flatMap(({ files }) => files));
  const own = new Set<string>();
  let intervals: readonly DataInterval[] = [...rewritten.values()];
  for (let round = 1; ; round += 1) {
    for (const runId of await makeRuns(rewrite, intervals)) own.add(runId);
    const underWay = await untilOver(rewrite, intervals, attempts, endsAt);
    if (underWay > 0) throw notOver(underWay, rewrite);
    const watched = [...rewritten.values(), ...attempts.map(({ interval }) => interval)];
    if (watched.length === 0) {
      await expectRemoved(rewrite, endsAt);
      return 0;
    }
    const keys = new Set(watched.map(keyOf));
    const after = await rewrite.find((interval) => keys.has(keyOf(interval)));
    const left = after.found.map(({ interval }) => interval);
    for (const { interval, files } of after.found) {
      rewritten.set(keyOf(interval), interval);
      for (const key of files) replaced.add(key);
    }
    if (left.length === 0) {
      await expectGone(rewrite, replaced, after.files);
      await expectRemoved(rewrite, endsAt);
      return rewritten.size;
    }
    const newest = await listNewestRuns(db, exportId, left);
    const others = newest.filter(({ runId }) => !own.has(runId));
    if (others.length < left.length || round === maxRounds) {
      throw stillThere(left.length, newest);
    }
    intervals = others.map(({ interval }) => interval);
    if (!rewrite.isQuiet) {
      deps.print('Another run wrote the key meanwhile. Its interval is run again.');
    }
  }
}

async function makeRuns(
  { deps, db, exportId, isQuiet }: Rewrite,
  intervals: readonly DataInterval[],
): Promise<readonly string[]> {
  if (intervals.length === 0) return [];
  const { rewriteIntervals } = await import('../use-cases/runs/rewrite-intervals.ts');
  const runs = await rewriteIntervals(db, exportId, intervals, 'a key was erased');
  const live = intervals.length - runs.length;
  if (!isQuiet) {
    const others = live === 0 ? '' : ` ${plural(live, 'interval')} had a live run already.`;
    deps.print(`${plural(runs.length, 'run')} made.${others} Waiting until all have ended.`);
  }
  return runs;
}

/**
 * Waits until the runs of these intervals and the attempts have ended, and the files that were replaced are removed.
 * Those go at the end of a run, or with a later sweep.
 *
 * @returns how many runs have not ended in time
 */
async function untilOver(
  { deps, db, exportId }: Rewrite,
  intervals: readonly DataInterval[],
  attempts: readonly Attempt[],
  endsAt: number,
): Promise<number> {
  const { countUnderWay, listNewestRuns } = await import('../store/interval-runs.ts');
  const { countLeftovers } = await import('../store/leftover-files.ts');
  for (;;) {
    const newest = await listNewestRuns(db, exportId, intervals);
    const live = newest.filter(({ isLive }) => isLive).length;
    const underWay = live > 0 ? live : await countUnderWay(db, attempts);
    if (underWay === 0 && (await countLeftovers(db, exportId, intervals)) === 0) return 0;
    if (performance.now() > endsAt) return underWay;
    await sleep(1_000, undefined, { signal: deps.terminal.signal });
  }
}

/** @throws CliError that names the replaced files that are still at the destination */
async function expectGone(
  { deps, destination }: Rewrite,
  replaced: ReadonlySet<string>,
  current: ReadonlySet<string>,
): Promise<void> {
  const left: string[] = [];
  for (const key of replaced) {
    if (current.has(key)) continue;
    if ((await destination.statFile(key, deps.terminal.signal)) !== null) left.push(key);
  }
  if (left.length === 0) return;
  throw new CliError(
    `No current file has the key, but ${plural(left.length, 'replaced file')} must still be removed:\n${left.map(plain).join('\n')}`,
  );
}

/** Of keys in one message. */
const maxNamed = 100;

/**
 * Waits until no file is left that an earlier run replaced, such as one of a command that was interrupted: it may have the
 * key, and no search reads it.
 *
 * @throws CliError that names those which are left
 */
async function expectRemoved(
  { deps, db, exportId, since }: Rewrite,
  endsAt: number,
): Promise<void> {
  const { listReplacedFiles } = await import('../store/leftover-files.ts');
  for (;;) {
    const left = await listReplacedFiles(db, exportId, since, maxNamed);
    if (left.length === 0) return;
    if (performance.now() > endsAt) {
      const many =
        left.length === maxNamed ? `${maxNamed} or more files` : plural(left.length, 'file');
      throw new CliError(
        `No current file has the key, but ${many} that earlier runs replaced may still be there:\n${left.map(plain).join('\n')}`,
      );
    }
    await sleep(1_000, undefined, { signal: deps.terminal.signal });
  }
}

function stillThere(count: number, newest: readonly IntervalRun[]): CliError {
  const failed = newest.filter(({ status }) => status !== 'Completed');
  const lines = failed.map(
    ({ interval, status, latestError }) =>
      `${describeInterval(interval)}: its run ended as ${status}${latestError === null ? '.' : `: ${plain(latestError)}`}`,
  );
  const whole = `The key is still in the files of ${plural(count, 'interval')}.`;
  if (failed.length === count) {
    return new CliError(
      [whole, ...lines, 'Fix the cause, then run the same command again.'].join('\n'),
    );
  }
  return new CliError(
    [
      `${whole} Remove its rows from the source first, then run the same command again.`,
      ...lines,
    ].join('\n'),
  );
}

const notOver = (count: number, { timeoutMs }: Rewrite) =>
  new CliError(
    `${plural(count, 'run')} had not ended after ${timeoutMs / 1_000} s, so nothing is proven. Run the same command again; \`sluice doctor\` says whether workers are alive.`,
  );

const keyOf = ({ start, end }: DataInterval): string => `${start} ${end}`;
