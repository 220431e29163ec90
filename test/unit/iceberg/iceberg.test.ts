import { beforeEach, describe, expect, it } from 'vitest';
import {
  commitInterval,
  expireSnapshots,
  type TableCommit,
} from '../../../src/extensions/iceberg/commit-interval.ts';
import { findHeld, readTable } from '../../../src/extensions/iceberg/iceberg-table.ts';
import { budgetOfCommit, readManifests } from '../../../src/extensions/iceberg/manifest-set.ts';
import type { TableMetadata } from '../../../src/extensions/iceberg/metadata.ts';
import { codeOf } from '../../conformance/destination-suite.ts';
import {
  commitTo,
  dayMs,
  field,
  filesOf,
  firstNow,
  type MemoryObjects,
  memoryObjects,
  place,
} from '../../support/memory-table.ts';

let objects: MemoryObjects;
beforeEach(() => {
  objects = memoryObjects();
});

const commit = (changes: Partial<TableCommit> = {}) => commitTo(objects, changes);
const at = (ms: number) => commit({ readNow: async () => firstNow + ms });

/** Of the current snapshot. */
async function pathsNow(): Promise<string[]> {
  const { current, faults } = await readTable(place, objects);
  expect(faults).toEqual([]);
  return [...current.keys()].toSorted();
}

const pathOf = (hour: number, generation = 1) =>
  place.uri(filesOf(hour, generation).files[0]?.key ?? '');

const versionText = (): string => String(objects.kept.get('p/metadata/version-hint.text'));

function newest(): TableMetadata {
  const found = objects.kept.get(`p/metadata/v${versionText()}.metadata.json`);
  return JSON.parse(String(found)) as TableMetadata;
}

describe('a commit to an Iceberg table', () => {
  it('adds the files of an interval once, however often it is repeated', async () => {
    await commitInterval(commit(), filesOf(0));
    await commitInterval(commit(), filesOf(1));
    await commitInterval(commit(), filesOf(0));
    expect(await pathsNow()).toEqual([pathOf(0), pathOf(1)]);
    expect(newest().snapshots).toHaveLength(2);
  });

  it('replaces the files of an interval, and of no other', async () => {
    for (const hour of [0, 1, 2]) await commitInterval(commit(), filesOf(hour));
    await commitInterval(commit(), filesOf(1, 2));
    expect(await pathsNow()).toEqual([pathOf(0), pathOf(1, 2), pathOf(2)]);
    const { summary } = newest().snapshots.at(-1) ?? {};
    expect(summary).toMatchObject({ operation: 'overwrite', 'total-records': '30' });
    expect((await readTable(place, objects)).earlier.has(pathOf(1))).toBe(true);
  });

  it('removes the files of an interval that has no row any more', async () => {
    await commitInterval(commit(), filesOf(0));
    await commitInterval(commit(), filesOf(1));
    await commitInterval(commit(), filesOf(1, 2, { files: [], isSealed: true }));
    expect(await pathsNow()).toEqual([pathOf(0)]);
    expect(newest().snapshots.at(-1)?.summary.operation).toBe('delete');
  });

  it('makes the table with its columns if the first interval has no row, and once', async () => {
    const none = filesOf(0, 1, { files: [], isSealed: false });
    await commitInterval(commit(), none);
    await commitInterval(commit(), none);
    expect(versionText()).toBe('1');
    expect(newest().schemas.at(-1)?.fields.length).toBeGreaterThan(0);
    expect(newest().snapshots).toEqual([]);
    expect(await pathsNow()).toEqual([]);
    await commitInterval(commit(), filesOf(1));
    expect(await pathsNow()).toEqual([pathOf(1)]);
  });

  it('refuses an earlier generation than the table has', async () => {
    await commitInterval(commit(), filesOf(0, 3));
    expect(await codeOf(commitInterval(commit(), filesOf(0, 2)))).toBe('destination.conflict');
    expect(await pathsNow()).toEqual([pathOf(0, 3)]);
  });

  it('raises the version for an interval without rows, so that a frozen commit before it fails', async () => {
    await commitInterval(commit(), filesOf(0));
    let frozen = 0;
    const confirm = async () => {
      frozen += 1;
      if (frozen > 1) throw new Error('the lease is lost');
      await commitInterval(commit(), filesOf(1, 2, { files: [], isSealed: true }));
    };
    await expect(commitInterval(commit({ confirm }), filesOf(1))).rejects.toThrow('lease');
    expect(await pathsNow()).toEqual([pathOf(0)]);
  });

  it('goes on from a version whose writer died before the hint', async () => {
    await commitInterval(commit(), filesOf(0));
    await commitInterval(commit(), filesOf(1));
    objects.kept.set('p/metadata/version-hint.text', Buffer.from('1'));
    await commitInterval(commit(), filesOf(1));
    expect(versionText()).toBe('2');
    objects.kept.delete('p/metadata/version-hint.text');
    await commitInterval(commit(), filesOf(2));
    expect(versionText()).toBe('3');
    expect(await pathsNow()).toEqual([pathOf(0), pathOf(1), pathOf(2)]);
  });

  it('refuses the table of another export, and one that another program has changed', async () => {
    await commitInterval(commit(), filesOf(0));
    const other = commit({ place: { ...place, owner: 'another' } });
    expect(await codeOf(commitInterval(other, filesOf(1)))).toBe('destination.key_taken');
    const table = JSON.stringify({ ...newest(), snapshots: [{ 'snapshot-id': 1 }] });
    objects.kept.set('p/metadata/v1.metadata.json', Buffer.from(table));
    expect(await codeOf(commitInterval(commit(), filesOf(1)))).toBe('destination.table_damaged');
  });
});

describe('the columns of an Iceberg table', () => {
  const commitFields = (hour: number, fields: readonly ReturnType<typeof field>[]) =>
    commitInterval(commit(), filesOf(hour, 1, { fields }));

  it('grow by new columns and wider types, and keep what rows lack', async () => {
    await commitFields(0, [field('a', 'int', 3), field('b', 'decimal(9, 2)', 5)]);
    await commitFields(1, [field('a', 'long', 3), field('c', 'string', 9)]);
    await commitFields(2, [field('a', 'int', 3), field('b', 'decimal(9, 2)', 5)]);
    const { schemas, 'current-schema-id': current, 'last-column-id': last } = newest();
    expect(schemas.map(({ fields }) => fields.map(({ name, type }) => `${name} ${type}`))).toEqual([
      ['a int', 'b decimal(9, 2)'],
      ['a long', 'b decimal(9, 2)', 'c string'],
    ]);
    expect([current, last]).toEqual([1, 9]);
  });

  it('do not take another type', async () => {
    await commitFields(0, [field('a', 'int', 3)]);
    const refused = commitFields(1, [field('a', 'string', 3)]);
    await expect(refused).rejects.toThrow(/column a is int in the Iceberg table, and string/);
    expect(await pathsNow()).toEqual([pathOf(0)]);
  });
});

describe('the growth of an Iceberg table', () => {
  it('is held by merged manifests: a commit reads few of them', async () => {
    const hours = 150;
    for (let hour = 0; hour < hours; hour += 1) await commitInterval(commit(), filesOf(hour));
    objects.reads.length = 0;
    await commitInterval(commit(), filesOf(hours));
    // The hint, two versions, the list, and a group that is merged.
    expect(objects.reads.length).toBeLessThan(16);
    const last = newest().snapshots.at(-1) ?? null;
    expect((await readManifests(place, objects, last, budgetOfCommit())).length).toBeLessThan(32);
    objects.reads.length = 0;
    await commitInterval(commit(), filesOf(100, 2));
    expect(objects.reads.length).toBeLessThan(16);
    expect(await pathsNow()).toHaveLength(hours + 1);
    const files = [...objects.kept.keys()].filter((key) => key.endsWith('.metadata.json'));
    expect(files.length).toBeLessThanOrEqual(23);
  });

  it('ends with the retention: snapshots and what they alone had go, what is current stays', async () => {
    await commitInterval(at(0), filesOf(0));
    await commitInterval(at(0), filesOf(1));
    // Time travel begins when a snapshot is replaced, not when it was made.
    await commitInterval(at(20 * dayMs), filesOf(1, 2));
    const old = filesOf(1).files.map(({ key }) => key);
    await expireSnapshots(at(26 * dayMs));
    expect(await findHeld(place, objects, filesOf(1), old)).toEqual(old);
    await expireSnapshots(at(28 * dayMs));
    expect(await findHeld(place, objects, filesOf(1), old)).toEqual([]);
    expect(newest().snapshots).toHaveLength(1);
    // What the version names as removable goes with the next.
    await commitInterval(at(28 * dayMs), filesOf(2));
    expect(await pathsNow()).toEqual([pathOf(0), pathOf(1, 2), pathOf(2)]);
    const avro = [...objects.kept.keys()].filter((key) => key.endsWith('.avro'));
    // Two lists, and three manifests; that of hour 1 also says what it has removed.
    expect(avro.filter((key) => key.includes('/s_'))).toHaveLength(2);
    expect(avro.filter((key) => key.includes('/m_'))).toHaveLength(4);
  });
});
