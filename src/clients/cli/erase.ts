import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import { describeError } from '../../foundation/domain/describe-error.ts';
import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import { toSluiceError } from '../../foundation/domain/errors.ts';
import {
  type DataInterval,
  describeInterval,
  type Instant,
  toTimestamp,
} from '../../foundation/domain/time.ts';
import type { OpenSearch, SearchedInterval } from '../../main/verify.ts';
import type { Database } from '../../state/store/database/database.ts';
import { readInstant, readSeconds } from './arguments.ts';
import { type CliDeps, CliError, misused } from './deps.ts';
import { type Found, type Rewritten, rewriteFound } from './erase-rewrite.ts';
import { plain, plural } from './text.ts';

interface Options {
  readonly export?: string;
  readonly organization?: string;
  readonly key: string;
  readonly column?: string;
  readonly after?: number;
  readonly json?: boolean;
}

interface Searched extends Found {
  readonly searchedIntervals: number;
  /** Rejected rows that lack the column. */
  readonly keyOnlyRows: number;
  /** Current files in folders that are named after the value. */
  readonly namedAfter: readonly string[];
}

/** `sluice erase …`: finds the rows of a person in current files, and makes these files again without them. */
export function register(program: Command, deps: CliDeps): void {
  const erase = program
    .command('erase')
    .description(
      'Find a key in the current files of an export, or of all exports of an organization, and remove its rows from them',
    );
  const common = (command: Command) =>
    command
      .option('--export <id or name>', 'the export')
      .option(
        '--organization <id or name>',
        'instead of --export: all exports of the organization, one after the other',
      )
      .requiredOption('--key <value>', 'the value to find, as the files have it')
      .option('--column <name>', "the column; default: the model's key, if it is one column")
      .option('--after <time>', 'only intervals that start at this time or later', readInstant)
      .option('--json', 'print one line of JSON per interval');

  common(erase.command('find'))
    .description(
      'read every current file and list the intervals whose files have the key; exits with 1 if one cannot be read',
    )
    .action((options: Options) =>
      eraseFrom(deps, options, async (search, wanted, _db, id) => {
        const searched = await find(deps, ofExport(options, id), search, wanted, null);
        summarize(deps, options, wanted, searched);
        for (const line of describeLeft(searched, wanted)) deps.terminal.err(`${line}\n`);
        if (searched.doubtful.length > 0) throw new CliError(describeDoubts(searched.doubtful));
      }),
    );

  common(erase.command('rewrite'))
    .description(
      'make the files again that have the key, without its rows, after these left the source; exits with 1 unless no current file has it then',
    )
    .option('--timeout <seconds>', 'how long to wait for the runs', readSeconds, 3_600)
    .action((options: Options & { timeout: number }) =>
      eraseFrom(deps, options, (search, wanted, db, id) =>
        rewrite(deps, ofExport(options, id), search, wanted, db),
      ),
    );
}

type Work = (search: OpenSearch, wanted: ErasedValue, db: Database, id: string) => Promise<void>;

const ofExport = <O extends Options>(options: O, id: string) => ({ ...options, export: id });

/** Does `work` for the export, or for each export of the organization: then a failure of one does not stop the others. */
async function eraseFrom(deps: CliDeps, options: Options, work: Work): Promise<void> {
  const { export: named, organization, json } = options;
  if ((named === undefined) === (organization === undefined)) {
    throw misused('Name either --export or --organization.');
  }
  const { listVerifiedExports } = await import('../../state/store/intervals/verify-queries.ts');
  await deps.withDatabase(async (db, url) => {
    const exports = await listVerifiedExports(db, named ?? null, organization ?? null);
    if (organization === undefined) {
      const [only, ...others] = exports;
      if (others.length > 0) {
        throw new CliError(
          `${exports.length} exports are named "${plain(named ?? '')}". Use an id: ${exports.map(({ id }) => id).join(', ')}.`,
        );
      }
      if (only && (await search(deps, options, db, url, only.id, work))) return;
      throw new CliError(
        `There is no export ${plain(named ?? '')} that keeps files. Check the id or the name.`,
      );
    }
    if (exports.length === 0) {
      throw new CliError(
        `There is no organization ${plain(organization)} with exports. Check the id or the name.`,
      );
    }
    let failed = 0;
    for (const { id, name } of exports) {
      if (!json) deps.print(`Export ${plain(name)} (${id})`);
      const error = await search(deps, options, db, url, id, work)
        .then((keepsFiles) => (keepsFiles ? null : 'It keeps no files.'))
        .catch((cause: unknown) => {
          deps.terminal.signal.throwIfAborted();
          failed += 1;
          return cause instanceof CliError ? cause.message : describeError(toSluiceError(cause));
        });
      if (json) deps.print(JSON.stringify({ export: id, name, error }));
      else if (error !== null) deps.print(plain(error));
    }
    if (failed === 0) return;
    throw new CliError(
      `${failed} of ${plural(exports.length, 'export')} failed: see the lines above. Run the same command again; what is done is not done twice.`,
    );
  });
}

/** @returns false if the export keeps no files */
async function search(
  deps: CliDeps,
  options: Options,
  db: Database,
  url: string,
  id: string,
  work: Work,
): Promise<boolean> {
  const { findSourceUrl } = await import('../../main/models.ts');
  const { searchExport } = await import('../../main/verify.ts');
  const { readConfig } = await import('../../foundation/config/config.ts');
  const { allowQuickstartS3 } = await import('../quickstart/local-s3.ts');
  const config = await allowQuickstartS3(readConfig(deps.terminal.env));
  const done = await searchExport(
    config,
    db,
    await findSourceUrl(config, url),
    id,
    async (open) => {
      const [own, ...more] = open.keyColumns;
      const column = options.column ?? (more.length === 0 ? own : undefined);
      if (column === undefined) {
        throw new CliError('The key of this model has several columns. Name one with --column.');
      }
      await work(open, { column, value: options.key }, db, id);
      return true;
    },
  );
  return done ?? false;
}

async function find(
  deps: CliDeps,
  options: Options,
  search: OpenSearch,
  wanted: ErasedValue,
  only: ((interval: DataInterval) => boolean) | null,
): Promise<Searched> {
  const { json, after } = options;
  const intervals: SearchedInterval[] = [];
  const doubtful: DataInterval[] = [];
  const lacking: SearchedInterval[] = [];
  const files = new Set<string>();
  let searchedIntervals = 0;
  let keyOnlyRows = 0;
  const namedAfter: string[] = [];
  let hasColumn = false;
  // No interval ends at or before its start.
  const last = after === undefined ? null : { start: after, end: after };
  for await (const searched of search.find(wanted, last, only)) {
    deps.terminal.signal.throwIfAborted();
    searchedIntervals += 1;
    keyOnlyRows += searched.keyOnlyRows;
    namedAfter.push(...searched.namedAfter);
    if (searched.rows > 0) intervals.push(searched);
    // A whole export may have millions.
    if (only !== null) for (const key of searched.files) files.add(key);
    if (searched.hasColumn === true) hasColumn = true;
    if (searched.hasColumn === false) {
      lacking.push(searched);
      continue;
    }
    if (searched.doubt !== null) doubtful.push(searched.interval);
    const isSilent = searched.rows === 0 && searched.keyOnlyRows === 0;
    if (isSilent && searched.doubt === null) continue;
    deps.print(json ? jsonOf(options, searched) : lineOf(searched));
  }
  // The query can have changed: a column that other intervals have is in none of their rows. Otherwise its name is a typing error.
  if (hasColumn && lacking.length > 0 && only === null) {
    const [first] = lacking;
    const where = first ? `, such as ${describeInterval(first.interval)}` : '';
    deps.terminal.err(
      `The files of ${plural(lacking.length, 'interval')} have no column ${plain(wanted.column)}${where}: nothing was searched there. If another column has the person there, search it too.\n`,
    );
  }
  for (const searched of hasColumn ? [] : lacking) {
    doubtful.push(searched.interval);
    deps.print(json ? jsonOf(options, searched) : lineOf(searched));
  }
  return { doubtful, found: intervals, files, searchedIntervals, keyOnlyRows, namedAfter };
}

function jsonOf(
  { export: id, organization }: Options,
  { interval, rows, keyOnlyRows, files, doubt }: SearchedInterval,
): string {
  const { start, end } = interval;
  const of = organization === undefined ? {} : { export: id };
  const bounds = { ...of, start: toTimestamp(start), end: toTimestamp(end) };
  return JSON.stringify({ ...bounds, rows, not_searched_rows: keyOnlyRows, files, doubt });
}

function lineOf({ interval, rows, keyOnlyRows, files, doubt }: SearchedInterval): string {
  const range = describeInterval(interval);
  const has = `${range}: ${plural(rows, 'row')} in ${plural(files.length, 'file')}`;
  const rest = keyOnlyRows === 0 ? '' : `, ${plural(keyOnlyRows, 'rejected row')} NOT SEARCHED`;
  return plain(doubt === null ? `${has}${rest}` : `${range}: NOT SURE: ${doubt}`);
}

/** Places that a search by a column does not reach: names of folders, and rejected rows that are stored with their key alone. */
function describeLeft(
  { keyOnlyRows, namedAfter }: Pick<Searched, 'keyOnlyRows' | 'namedAfter'>,
  { column }: ErasedValue,
): readonly string[] {
  const lines: string[] = [];
  if (keyOnlyRows > 0) {
    lines.push(
      `Not searched: ${plural(keyOnlyRows, 'rejected row')}. The files have their key and not ${plain(column)}. Search for the key of the person's rows too.`,
    );
  }
  if (namedAfter.length > 0) {
    lines.push(
      `The folder of ${plural(namedAfter.length, 'current file')} is named after the value, such as ${plain(namedAfter[0] ?? '')}.`,
    );
  }
  return lines;
}

/** Says what was searched too: no row found in the wrong column is not a person who is in no file. */
function summarize(
  deps: CliDeps,
  { json, column }: Options,
  wanted: ErasedValue,
  { found, searchedIntervals }: Searched,
): void {
  const rows = found.reduce((sum, interval) => sum + interval.rows, 0);
  const where = `Searched the column ${plain(wanted.column)} in ${plural(searchedIntervals, 'interval')}.`;
  if (!json) {
    const has = `${plural(rows, 'row')} in the current files of ${plural(found.length, 'interval')}.`;
    deps.print(`${has} ${where}`);
  }
  if (rows > 0) return;
  if (searchedIntervals === 0) {
    deps.terminal.err(
      'Nothing was searched: this export has no exported interval (after --after, if set). Check --export and --after.\n',
    );
  } else if (column === undefined) {
    deps.terminal.err(
      `${json ? `${where} ` : ''}That is the key of the model, the default. To find a person, name the column that has the value, such as --column distinct_id.\n`,
    );
  }
}

async function rewrite(
  deps: CliDeps,
  options: Options & { readonly export: string; readonly timeout: number },
  search: OpenSearch,
  wanted: ErasedValue,
  db: Database,
): Promise<void> {
  const { json = false, timeout, after = null } = options;
  const request = randomUUID();
  let first: Pick<Searched, 'keyOnlyRows' | 'namedAfter'> = { keyOnlyRows: 0, namedAfter: [] };
  const rewritten = await rewriteFound({
    destination: search.destination,
    secrets: search.secrets,
    countInSource: (interval) => search.countInSource(interval, wanted, deps.terminal.signal),
    deps,
    db,
    exportId: options.export,
    request,
    erased: wanted,
    isQuiet: json,
    timeoutMs: timeout * 1_000,
    since: after,
    async find(only) {
      const searched = await find(deps, options, search, wanted, only);
      if (only === null) {
        summarize(deps, options, wanted, searched);
        first = searched;
      }
      return searched;
    },
  });
  const { countDeletedAgain } = await import('../../state/store/files/unfinished-commits.ts');
  const deletedAgain = await countDeletedAgain(db, options.export);
  const namedAfter: string[] = [];
  for (const key of first.namedAfter) {
    if ((await search.destination.statFile(key, deps.terminal.signal)) !== null)
      namedAfter.push(key);
  }
  const gaps = [...describeLeft({ ...first, namedAfter }, wanted)];
  const { countQuotes } = await import('../../state/store/exports/log-entries.ts');
  const quotes = await countQuotes(db, options.export, wanted.value);
  if (quotes > 0) gaps.push(describeQuotes(quotes));
  const proof = [describeProof(rewritten, after, search.hasMoved, deletedAgain), ...gaps].join(' ');
  const { doubtful, unrecorded, intervals } = rewritten;
  if (!json) {
    for (const interval of intervals) deps.print(`Rewritten: ${describeInterval(interval)}`);
    if (intervals.length > 0) {
      deps.print(
        `Request ${request}. Once a statement has it, \`sluice certificate ${options.export} ${request}\` prints a signed certificate.`,
      );
    }
  }
  if (doubtful.length === 0 && unrecorded.length === 0) {
    if (!json) deps.print(proof);
    return;
  }
  throw new CliError(
    [
      proof,
      ...(doubtful.length > 0 ? [describeDoubts(doubtful)] : []),
      ...(unrecorded.length > 0 ? [describeUnrecorded(unrecorded)] : []),
    ].join('\n'),
  );
}

/** A line of the result: the proof, and in the same line its limits. */
function describeProof(
  { intervals, unasked }: Rewritten,
  after: Instant | null,
  hasMoved: boolean,
  deletedAgain: number,
): string {
  // Not in whole seconds: an interval that starts at the second was not searched.
  const from = after === null ? '' : toTimestamp(after).replace(/\.0+Z$/, 'Z');
  const searched = after === null ? '' : ` of an interval that starts at ${from} or later`;
  const proven =
    intervals.length === 0
      ? `No current file${searched} has the key: nothing to rewrite.`
      : `Proven: of ${plural(intervals.length, 'interval')}, none has the key in a current file, and the replaced files are deleted.`;
  return [
    proven,
    ...(unasked === null
      ? []
      : [
          `Not known: whether the source still has the rows, in which case a later run exports them again (${plain(unasked)}).`,
        ]),
    ...(deletedAgain === 0
      ? []
      : [
          `In about an hour Sluice deletes ${plural(deletedAgain, 'file')} of the export a second time, in case a late request brings one back.`,
        ]),
    ...(hasMoved ? ['Not searched: files at places that the export has left.'] : []),
  ].join(' ');
}

const describeQuotes = (quotes: number): string =>
  `The value is quoted in ${plural(quotes, 'text')} of the export: logs, errors, verifications, changes or notifications. Sluice deletes logs after LOG_RETENTION_DAYS, the others after RETENTION_DAYS.`;

const describeDoubts = (intervals: readonly DataInterval[]): string =>
  `${plural(intervals.length, 'interval')} could not be searched: see the lines above.`;

const describeUnrecorded = (intervals: readonly DataInterval[]): string =>
  [
    `${plural(intervals.length, 'interval')} may have files that no search reads, because a run ended while it committed them. Retry the newest run of each, then run the same command again.`,
    ...intervals.map(describeInterval),
  ].join('\n');
