const store = 'test/integration/store';
const pipeline = 'test/integration/pipeline';
const answers = 'test/e2e/verify-answers.test.ts';

/**
 * Mutants of what is between the protocols: places, other histories, erasures, objects of others, and what `verify` says.
 *
 * @type {readonly import('./mutants.mjs').Mutant[]}
 */
export const betweenMutants = [
  {
    name: 'settling: the time for what a role does not see passes while a run waits',
    file: 'src/rows/sources/postgres/settle.ts',
    find: 'if (waitedMs > 0) return [unseenUntil',
    replace: 'if (waitedMs < 0) return [unseenUntil',
    test: 'test/unit/sources/settle.test.ts',
  },
  {
    name: 'settling: a run goes back without the names of what is pending',
    file: 'src/state/store/runs/outbox.ts',
    find: 'JSON.stringify({ pending, blockers })',
    replace: 'JSON.stringify({ pending: [], blockers })',
    test: 'test/integration/worker/wait-for-source.test.ts',
  },
  {
    name: 'bounds: a backfill computes what was decided',
    file: 'src/state/store/intervals/decided-intervals.ts',
    find: 'where f.export_id = $1 and f.data_interval_start >= s.span_start',
    replace: 'where false and f.export_id = $1 and f.data_interval_start >= s.span_start',
    test: `${store}/zone-data.test.ts`,
  },
  {
    name: 'erasures: a second attempt that may adopt a manifest is not waited for',
    file: 'src/state/store/intervals/interval-runs.ts',
    find: 'and (r.fence = held.fence or r.commit_intent is not null)',
    replace: 'and r.fence = held.fence',
    test: `${store}/erasures.test.ts`,
  },
  {
    name: 'objects of others: the note of a refused key stays',
    file: 'src/rows/pipeline/export-interval.ts',
    find: '  if (taken.length > 0) await ports.withdraw(taken);\n',
    replace: '',
    test: `${pipeline}/shared-prefix.test.ts`,
  },
  {
    name: 'objects of others: files stay that another manifest has refused',
    file: 'src/rows/pipeline/export-interval.ts',
    find: '  await destination.deleteFiles(ours, signal);\n',
    replace: '',
    test: `${pipeline}/shared-prefix.test.ts`,
  },
  {
    name: 'objects of others: what was noted is ours',
    file: 'src/rows/pipeline/leftovers.ts',
    find: "  if (object.owner ? object.owner !== exportId : !isRecorded) return 'foreign';\n",
    replace: '',
    test: `${pipeline}/shared-prefix.test.ts`,
  },
  {
    name: 'objects of others: a first commit trusts the condition',
    file: 'src/rows/pipeline/export-interval.ts',
    find: '  if (reading.manifest?.batch_export_id !== job.exportId) {',
    replace: '  if (job.current !== null && reading.manifest?.batch_export_id !== job.exportId) {',
    test: `${pipeline}/first-commit.test.ts`,
  },
  {
    name: 'other histories: every commit is known',
    file: 'src/state/store/files/known-commits.ts',
    find: 'return rows.length > 0;',
    replace: 'return rows.length >= 0;',
    test: `${store}/uploads.test.ts`,
  },
  {
    name: 'other histories: what is put after an era was accepted is known',
    file: 'src/state/store/files/known-commits.ts',
    find: 'case when $10::float8 is null then',
    replace: 'case when $10::float8 is null or true then',
    test: `${store}/uploads.test.ts`,
  },
  {
    name: 'other histories: a file in place is replaced, whichever run wrote it',
    file: 'src/rows/pipeline/in-place.ts',
    find: '  if (isRecorded || (await knowsFile(found, key, ports.knowsCommit))) return;\n',
    replace:
      '  if (isRecorded || found.bytes >= 0 || (await knowsFile(found, key, ports.knowsCommit))) return;\n',
    test: `${pipeline}/shared-prefix.test.ts`,
  },
  {
    name: 'retention: a tick goes that the high-water mark still needs',
    file: 'src/state/store/database/retention.ts',
    find: 'or coalesce(k.data_interval_end <= e.high_water_mark, false)))',
    replace: 'or true))',
    test: `${store}/retention.test.ts`,
  },
  {
    name: 'verify: a finding is not confirmed by the receipt after it',
    file: 'src/service/verify/verify-receipt.ts',
    find: 'if (isSame(now.receipt, receipt)) {',
    replace: 'if (isSame(now.receipt, receipt) || true) {',
    test: answers,
  },
  {
    name: 'verify: any live run hides what is a stray',
    file: 'src/service/verify/find-strays.ts',
    find: 'return (await listWriters(this.#sql, near, startOf(key))).length > 0;',
    replace: `return (await this.#sql.query(\`select from runs where finished_at is null\`)).length > near.length - near.length;`,
    test: answers,
  },
  {
    name: 'verify: former places are not looked at',
    file: 'src/main/verify.ts',
    find: '    strayPlaces.push({\n      destination: former,',
    replace: '    void ({\n      destination: former,',
    test: answers,
  },
  {
    name: 'verify: a manifest of a lost history vouches for its files',
    file: 'src/service/verify/find-strays.ts',
    find: 'return isWhole && hasIds && isOfOurHistory(this.#sql, run, start);',
    replace: 'return isWhole && hasIds && (isOfOurHistory(this.#sql, run, start), true);',
    test: answers,
  },
  {
    name: 'verify: what is on record at another address is a stray',
    file: 'src/main/verify.ts',
    find: 'formerDestinations.filter(({ isOther }) => !isOther)',
    replace: 'formerDestinations.filter(({ isOther }) => isOther && !isOther)',
    test: answers,
  },
];
