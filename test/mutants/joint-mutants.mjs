const store = 'test/integration/store';

/**
 * Mutants of what runs of the same moment share.
 *
 * @type {readonly import('./mutants.mjs').Mutant[]}
 */
export const jointMutants = [
  {
    name: 'completions: one that had to wait makes those after it wait too',
    file: 'src/state/store/runs/run-statements.ts',
    find: '    await this.#lockedCompletions.ended(exportId);\n',
    replace: '',
    test: `${store}/shared-statements.test.ts`,
  },
  {
    name: 'pages of backfills: an export that is locked holds up the others',
    file: 'src/state/store/exports/backfills.ts',
    find: ' for key share of e skip locked',
    replace: '',
    test: `${store}/overtaken.test.ts`,
  },
  {
    name: 'pages of backfills: the total counts the runs of the others too',
    file: 'src/state/store/exports/backfills.ts',
    find: 'from made where made.backfill_id = held.id))',
    replace: 'from made))',
    test: `${store}/overtaken.test.ts`,
  },
  {
    name: 'joint snapshots: projects share one',
    file: 'src/rows/sources/postgres/joint-snapshots.ts',
    find: 'JSON.stringify([tenantKey, server])',
    replace: 'JSON.stringify([server])',
    test: 'test/integration/sources/joint-snapshots.test.ts',
  },
  {
    name: 'joint snapshots: a statement may hold up the others',
    file: 'src/rows/sources/postgres/joint-snapshots.ts',
    find: 'this.#options = { ...options, statementTimeoutMs: statementMs, holdRow: refuse };',
    replace: 'this.#options = { ...options, holdRow: refuse };',
    test: 'test/integration/sources/joint-snapshots.test.ts',
  },
  {
    name: 'joint snapshots: blocks keep the memory that the reader uses again',
    file: 'src/rows/sources/postgres/joint-snapshots.ts',
    find: 'blocks.push(copyBlock(block));',
    replace: 'blocks.push(block);',
    test: 'test/integration/sources/joint-snapshots.test.ts',
  },
  {
    name: 'joint snapshots: rows of any number of bytes stay in memory',
    file: 'src/rows/sources/postgres/joint-snapshots.ts',
    find: 'if (leftBytes >= 0) ',
    replace: '',
    test: 'test/integration/sources/joint-snapshots.test.ts',
  },
  {
    name: 'grouped: an item that fails fails its group',
    file: 'src/foundation/domain/grouped.ts',
    find: 'group.length > 1 && !this.#isOfAll(error)',
    replace: 'false',
    test: 'test/unit/domain/grouped.test.ts',
  },
  {
    name: 'grouped: a group that does not end holds up the others',
    file: 'src/foundation/domain/grouped.ts',
    find: 'const patience = setTimeout(end, patienceMs)',
    replace: 'const patience = setTimeout(() => {}, patienceMs)',
    test: 'test/unit/domain/grouped.test.ts',
  },
  {
    name: 'dispatch: an entry that is locked holds up the dispatcher',
    file: 'src/state/store/runs/outbox.ts',
    find: 'dispatched_at is null for update skip locked',
    replace: 'dispatched_at is null for update',
    test: `${store}/overtaken.test.ts`,
  },
  {
    name: 'dispatch: each project of an organization has turns of its own',
    file: 'src/state/store/runs/outbox.ts',
    find: 'partition by organization_id, is_small',
    replace: 'partition by team_id, is_small',
    test: `${store}/dispatch-choice.test.ts`,
  },
];
