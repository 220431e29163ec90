import { setTimeout as sleep } from 'node:timers/promises';
import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import { type DataInterval, describeInterval, type Instant } from '../../foundation/domain/time.ts';
import type { OpenSearch, SearchedInterval } from '../../main/verify.ts';
import type { Database } from '../../state/store/database/database.ts';
import type { IntervalRun, RunUnderWay } from '../../state/store/intervals/interval-runs.ts';
import { type CliDeps, CliError } from './deps.ts';
import { plain, plural } from './text.ts';

export interface Found {
  readonly found: readonly SearchedInterval[];
  readonly doubtful: readonly DataInterval[];
  /** All current files of the intervals that were named. */
  readonly files: ReadonlySet<string>;
}

export interface Rewrite extends Pick<OpenSearch, 'destination' | 'secrets'> {
  readonly deps: CliDeps;
  readonly db: Database;
  readonly exportId: string;
  /** The id that statements and the certificate have. */
  readonly request: string;
  readonly erased: ErasedValue;
  /** The number of such rows that the source has for an interval now; a text says why that is not known. */
  countInSource(interval: DataInterval): Promise<number | string>;
  readonly isQuiet: boolean;
  readonly timeoutMs: number;
  /** Only intervals that start then or later; null: all. */
  readonly since: Instant | null;
  /** Searches the current files. @param only intervals to search; null: all */
  find(only: ((interval: DataInterval) => boolean) | null): Promise<Found>;
}

/** The result of `rewriteFound`, and the limits of its proof. */
export interface Rewritten {
  /** Intervals that had the value, and have not any more, oldest first. */
  readonly intervals: readonly DataInterval[];
  readonly doubtful: readonly DataInterval[];
  /** Intervals that may have files of a commit that was never recorded. */
  readonly unrecorded: readonly DataInterval[];
  /** Why it is not known whether the source still has such rows; null if it has none. */
  readonly unasked: string | null;
}

/** The maximum wait for the removal of files while no file is removed. */
const removalPatienceMs = 120_000;

/**
 * Makes the files anew that have the value, without its rows, and searches the new ones. Runs that were in progress as it
 * began may have read the rows before they left the source, so it waits for these too, and searches what they wrote.
 *
 * @throws CliError that names what is left, unless no current file of these intervals has the value any more, and the
 *   replaced files are gone
 */
export async function rewriteFound(rewrite: Rewrite): Promise<Rewritten> {
  const { db, exportId, since } = rewrite;
  const { listUnderWay } = await import('../../state/store/intervals/interval-runs.ts');
  const { listUnfinishedCommits } = await import('../../state/store/files/unfinished-commits.ts');
  const endsAt = performance.now() + rewrite.timeoutMs;
  const underWay = await listUnderWay(db, exportId);
  const unfinished = await listUnfinishedCommits(db, exportId, since);
  const before = await rewrite.find(null);
  const unasked = await checkSource(rewrite, before.found);
  const had = new Map(before.found.map((one) => [keyOf(one.interval), one.interval]));
  // Whatever the run wrote that was never recorded: a commit of these intervals replaces it.
  const sealed = unfinished.filter(({ hasReceipt }) => hasReceipt).map((one) => one.interval);
  const watched = new Map(
    [...had.values(), ...sealed, ...underWay.map((run) => run.interval)].map((one) => [
      keyOf(one),
      one,
    ]),
  );
  const replaced = new Set(before.found.flatMap(({ files }) => files));
  const first = new Map([...had.values(), ...sealed].map((one) => [keyOf(one), one]));
  let doubtful = before.doubtful;
  let toRewrite: readonly DataInterval[] = [...first.values()];
  const own = new Set<string>();
  for (;;) {
    for (const runId of await makeRuns(rewrite, toRewrite)) own.add(runId);
    await untilOver(rewrite, toRewrite, underWay, endsAt);
    if (watched.size === 0) break;
    const after = await rewrite.find((interval) => watched.has(keyOf(interval)));
    doubtful = [...doubtful.filter((one) => !watched.has(keyOf(one))), ...after.doubtful];
    for (const { interval, files } of after.found) {
      had.set(keyOf(interval), interval);
      for (const key of files) replaced.add(key);
    }
    if (after.found.length === 0) {
      await expectGone(rewrite, replaced, after.files);
      break;
    }
    toRewrite = await listAgain(rewrite, after.found, own, endsAt);
  }
  await expectRemoved(rewrite, endsAt);
  // Also what ended meanwhile without a record.
  const openCommits = await listUnfinishedCommits(db, exportId, since);
  const unrecorded = openCommits.map(({ interval }) => interval);
  const intervals = [...had.values()].toSorted((a, b) => a.start - b.start);
  return { intervals, doubtful, unrecorded, unasked };
}

/** @returns why the source cannot be asked; null if it has no such row. @throws CliError if it has some */
async function checkSource(
  { countInSource, deps }: Rewrite,
  found: readonly SearchedInterval[],
): Promise<string | null> {
  const still: string[] = [];
  for (const { interval } of found) {
    deps.terminal.signal.throwIfAborted();
    const rows = await countInSource(interval);
    if (typeof rows === 'string') return rows;
    if (rows > 0) still.push(`${describeInterval(interval)}: ${plural(rows, 'row')}`);
  }
  if (still.length === 0) return null;
  throw new CliError(
    [
      `The source still has rows with this value in ${plural(still.length, 'interval')}, so a later run would export them again. No file was changed. Delete them from the source first, then run the same command again.`,
      ...still,
    ].join('\n'),
  );
}

async function makeRuns(
  { deps, db, secrets, exportId, request, erased, isQuiet }: Rewrite,
  intervals: readonly DataInterval[],
): Promise<readonly string[]> {
  if (intervals.length === 0) return [];
  const { eraseIntervals } = await import('../../service/use-cases/runs/erase-intervals.ts');
  const runs = await eraseIntervals({ db, secrets }, exportId, intervals, erased, request);
  const live = intervals.length - runs.length;
  if (!isQuiet) {
    const others = live === 0 ? '' : ` ${plural(live, 'interval')} had a live run already.`;
    deps.print(`${plural(runs.length, 'run')} made.${others} Waiting until all have ended.`);
  }
  return runs;
}

/** Waits until these runs have ended, and those that were in progress. @throws CliError that names the others */
async function untilOver(
  { deps, db, exportId, timeoutMs }: Rewrite,
  intervals: readonly DataInterval[],
  before: readonly RunUnderWay[],
  endsAt: number,
): Promise<void> {
  const { listNewestRuns, listStillUnderWay } = await import(
    '../../state/store/intervals/interval-runs.ts'
  );
  for (;;) {
    const newest = await listNewestRuns(db, exportId, intervals);
    const live = newest.filter(({ isLive }) => isLive);
    const underWay = live.length > 0 ? live : await listStillUnderWay(db, before);
    if (underWay.length === 0) return;
    if (performance.now() > endsAt) {
      throw new CliError(
        [
          `${plural(underWay.length, 'run')} had not ended after ${timeoutMs / 1_000} s, so nothing is proven. Run the same command again; \`sluice doctor\` says whether workers are alive.`,
          ...underWay
            .slice(0, maxNamed)
            .map(({ runId, interval }) => `${describeInterval(interval)}: run ${runId}`),
        ].join('\n'),
      );
    }
    await sleep(1_000, undefined, { signal: deps.terminal.signal });
  }
}

/**
 * The intervals that another run wrote meanwhile, with the rows in its files.
 *
 * @throws CliError if a run of this command has ended, and the rows are still there
 */
async function listAgain(
  { deps, db, exportId, isQuiet }: Rewrite,
  found: readonly SearchedInterval[],
  own: ReadonlySet<string>,
  endsAt: number,
): Promise<readonly DataInterval[]> {
  const { listNewestRuns } = await import('../../state/store/intervals/interval-runs.ts');
  const remaining = found.map(({ interval }) => interval);
  const newest = await listNewestRuns(db, exportId, remaining);
  const ours = newest.filter(({ runId }) => own.has(runId));
  if (ours.length > 0 || performance.now() > endsAt) throw stillThere(remaining.length, newest);
  if (!isQuiet) deps.print('Another run wrote the key meanwhile. Its interval is rewritten again.');
  return remaining;
}

/** @throws CliError that names the replaced files that are still at the destination */
async function expectGone(
  { deps, destination }: Rewrite,
  replaced: ReadonlySet<string>,
  current: ReadonlySet<string>,
): Promise<void> {
  const remaining: string[] = [];
  const endsAt = performance.now() + removalPatienceMs;
  for (const key of replaced) {
    if (current.has(key)) continue;
    while ((await destination.statFile(key, deps.terminal.signal)) !== null) {
      if (performance.now() > endsAt) {
        remaining.push(key);
        break;
      }
      await sleep(1_000, undefined, { signal: deps.terminal.signal });
    }
  }
  if (remaining.length === 0) return;
  throw new CliError(
    `No current file has the key, but ${plural(remaining.length, 'replaced file')} must still be removed:\n${remaining.map(plain).join('\n')}`,
  );
}

/** Keys or runs that one message names. */
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
  const { listReplacedFiles } = await import('../../state/store/files/leftover-files.ts');
  let before = '';
  let quietAt = performance.now();
  for (;;) {
    const remaining = await listReplacedFiles(db, exportId, since, maxNamed);
    if (remaining.length === 0) return;
    const now = performance.now();
    if (remaining.join() !== before) quietAt = now;
    before = remaining.join();
    if (now > endsAt || now - quietAt > removalPatienceMs) {
      const many =
        remaining.length === maxNamed
          ? `${maxNamed} or more files`
          : plural(remaining.length, 'file');
      throw new CliError(
        `No current file has the key, but ${many} that earlier runs replaced may still be there:\n${remaining.map(plain).join('\n')}`,
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
  return new CliError(
    [
      `The key is still in the files of ${plural(count, 'interval')}.`,
      ...lines,
      failed.length > 0
        ? 'Fix the cause, then run the same command again.'
        : 'Another run wrote it. Run the same command again.',
    ].join('\n'),
  );
}

const keyOf = ({ start, end }: DataInterval): string => `${start} ${end}`;
