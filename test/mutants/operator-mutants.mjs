const apply = 'test/integration/cli/apply.test.ts';
const records = 'test/integration/cli/records.test.ts';
const operator = 'test/integration/cli/operator.test.ts';
const metrics = 'test/integration/notifications/metrics.test.ts';
const cli = 'src/clients/cli/api';

/** Faults of what an operator uses: `apply`, the verbs of the command line, and the metrics. */
export const operatorMutants = [
  ...[
    [
      'it deletes although an export failed',
      'apply',
      "step.action === 'delete' && hasFailed",
      'false',
    ],
    [
      'it prunes a project that has none of the exports',
      'apply',
      '!stored.some(({ name }) => names.has(name))',
      'false',
    ],
    ['it deletes without a question', 'apply', 'going !== null', 'false'],
    [
      'a dry run changes the chain',
      'apply',
      'if (options.dryRun) {',
      'if (options.dryRun) {\n    await sendChanges(api, plan.chain ?? [], []);',
    ],
    ['--secrets sends nothing', 'apply', 'const resent = secrets &&', 'const resent = false &&'],
    [
      'two exports of one name are one',
      'apply',
      'if (sameName.length > 1) {',
      'if (sameName.length > 9) {',
    ],
    [
      'what another client deleted at the same time fails',
      'apply',
      'error.status === 404',
      'error.status === 499',
    ],
    [
      'what another client created at the same time fails',
      'apply',
      'if (!isConflict ||',
      'if (isConflict ||',
    ],
    [
      'a secret that is not set is sent',
      'apply',
      'if (sends) problems.push',
      'if (!step) problems.push',
    ],
    ['a secret is a difference', 'apply-changes', 'if (isSecret(name)) continue;', ''],
    [
      'a folder below the project is another one',
      'apply-changes',
      'if (isBelow || isSame(before, newValue)) continue;',
      'if (isSame(before, newValue)) continue;',
    ],
    [
      'a time that is written differently is another one',
      'apply-changes',
      'fields.times.has(name) ? isSameTime(before, after) : isSame(before, after)',
      'isSame(before, after)',
    ],
    [
      'a name may be in the file twice',
      'export-spec',
      'if (first !== undefined) {',
      'if (first === null) {',
    ],
    [
      'a secret may be plain text',
      'export-spec',
      'problems.push(...findPlainSecrets(entry, fields).map((problem) => about + problem));',
      '',
    ],
    [
      'the chain comes after the exports',
      'apply',
      'await sendChanges(api, plan.chain ?? [], refused);',
      'setTimeout(() => void sendChanges(api, plan.chain ?? [], refused).catch(() => {}), 3_000);',
    ],
  ].map(([name, file, find, replace]) => ({
    name: `operator apply: ${name}`,
    file: `${cli}/${file}.ts`,
    find,
    replace,
    test: apply,
  })),
  ...[
    [
      'a span is twice as long',
      'time-range',
      'toTimestamp(end - spanMs)',
      'toTimestamp(end - 2 * spanMs)',
    ],
    [
      'a range may be both a span and times',
      'time-range',
      'if (from !== undefined || to !== undefined) {',
      'if (from === null) {',
    ],
    [
      'a log is not cut by --since',
      'task-verbs',
      'await send({ after })',
      'await send({ after: undefined })',
    ],
    [
      'a log is not searched',
      'task-verbs',
      'await send({ after })',
      'await send({ search: undefined, after })',
    ],
    [
      'an acceptance asks no question',
      'record-verbs',
      'confirm: ({ batchExport, given: { from, to } }) =>',
      'unasked: ({ batchExport, given: { from, to } }) =>',
    ],
    [
      'an acceptance loses its reason',
      'record-verbs',
      'prepare: withRange,',
      'prepare: async (called) => ({ ...(await withRange(called)), reason: undefined }),',
    ],
    [
      'a change shows the whole destination',
      'record-verbs',
      'if (!isDivisible) return',
      'if (true) return',
    ],
    [
      'a step need not say whether it is enabled',
      'step-verbs',
      'if (!given.isEnabled && !given.isDisabled) {',
      'if (given === null) {',
    ],
    [
      'a deleted step stays',
      'step-verbs',
      "'transformations delete': remove(oneStep, {",
      "'transformations delete': get(oneStep, {",
    ],
    [
      'a backfill that stopped itself is done',
      'backfill',
      "ended.failed_runs > 0 || ended.status === 'Cancelled'",
      'ended.failed_runs > 0',
    ],
  ].map(([name, file, find, replace]) => ({
    name: `operator records: ${name}`,
    file: `${cli}/${file}.ts`,
    find,
    replace,
    test: records,
  })),
  ...[
    [
      'causes are not filtered',
      'cause-verbs',
      "turn: ['--turn <who>', 'only what they must fix', { choices: turns }],",
      "turned: ['--turn <who>', 'only what they must fix', { choices: turns }],",
    ],
    ['a dry run begins', 'cause-verbs', 'if (given.isDryRun) {', 'if (given === null) {'],
    [
      'a task begins without a question',
      'cause-verbs',
      'Start?`, given.yes === true',
      'Start?`, true',
    ],
    [
      'exports are not those of the cause',
      'cause-verbs',
      'query: { cause_id: String(given.cause), limit',
      'query: { limit',
    ],
  ].map(([name, file, find, replace]) => ({
    name: `operator verbs: ${name}`,
    file: `${cli}/${file}.ts`,
    find,
    replace,
    test: operator,
  })),
  {
    name: 'operator metrics: gauges keep their values while PostgreSQL is unreachable',
    file: 'src/main/service-metrics.ts',
    find: 'for (const gauge of Object.values(service)) forget(gauge);',
    replace: '',
    test: metrics,
  },
  {
    name: 'operator metrics: values with labels stay while PostgreSQL is unreachable',
    file: 'src/main/service-metrics.ts',
    find: '  gauge.reset();',
    replace: '',
    test: metrics,
  },
  {
    name: 'operator metrics: what an operator must fix is in no alert',
    file: 'src/main/service-metrics.ts',
    find: "turn === 'ours' ? 'internal' : 'source'",
    replace: "'source'",
    test: metrics,
  },
  {
    name: 'operator healing: a retry is handed over too',
    file: 'src/state/store/runs/claims.ts',
    find: ' and \x24{run}.generation = 0',
    replace: '',
    test: 'test/integration/store/healing.test.ts',
  },
  {
    name: 'operator apply: conditions of filters are a difference of the query',
    file: `${cli}/apply-changes.ts`,
    find: 'isQuery && query !== undefined ? query : value',
    replace: 'value',
    test: 'test/integration/cli/apply-queries.test.ts',
  },
  {
    name: 'operator apply: two names of a query may differ',
    file: `${cli}/export-spec.ts`,
    find: 'query !== sameQuery',
    replace: 'query === null',
    test: 'test/integration/cli/apply-queries.test.ts',
  },
  {
    name: 'operator healing: the oldest interval of all asks for the exports of all',
    file: 'src/state/store/healing/healing.ts',
    find: 'select due.* from due\n',
    replace:
      'select due.* from due where due.id = (select o.id from due o order by o.data_interval_start limit 1)\n',
    test: 'test/integration/store/healing.test.ts',
  },
  {
    name: 'operator healing: a run that heals forgets the processes that died',
    file: 'src/state/store/healing/healing.ts',
    find: "coalesce(last.generation + 1, 0), \x24{deathsOf('last')}",
    replace: 'coalesce(last.generation + 1, 0), 0, 0, 0',
    test: 'test/integration/store/healing.test.ts',
  },
  {
    name: 'operator healing: another database is met while the export is paused for another reason',
    file: 'src/state/store/exports/exports.ts',
    find: 'case when paused then $2 = 1 and',
    replace: 'case when paused then false and $2 = 1 and',
    test: 'test/integration/store/healing.test.ts',
  },
];
