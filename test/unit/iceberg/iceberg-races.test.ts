import { beforeEach, describe, expect, it } from 'vitest';
import {
  collectEvery,
  commitInterval,
  expireSnapshots,
  type IntervalFiles,
} from '../../../src/extensions/iceberg/commit-interval.ts';
import { readTable } from '../../../src/extensions/iceberg/iceberg-table.ts';
import { budgetOfCommit, readManifests } from '../../../src/extensions/iceberg/manifest-set.ts';
import {
  keptVersions,
  nameOf,
  ownNames,
  readNames,
} from '../../../src/extensions/iceberg/metadata.ts';
import {
  metadataFolder,
  type TableObjects,
  type TablePlace,
} from '../../../src/extensions/iceberg/table-objects.ts';
import { readNewest } from '../../../src/extensions/iceberg/versions.ts';
import { codeOf } from '../../conformance/destination-suite.ts';
import {
  commitTo,
  dayMs,
  filesOf,
  firstNow,
  type MemoryObjects,
  memoryObjects,
  place,
} from '../../support/memory-table.ts';
import { isNightly } from '../../support/nightly.ts';
import { randomOf } from '../../support/random.ts';

/** Names in the metadata folder of a table that no snapshot needs, and that do not wait for their removal. */
async function findTableLeftovers(place: TablePlace, objects: TableObjects): Promise<string[]> {
  const { table, version } = await readNewest(place, objects);
  const needed = new Set([
    'version-hint.text',
    ...readNames(table?.properties[ownNames.removable]),
  ]);
  for (let old = version - keptVersions; old <= version; old += 1) {
    needed.add(`v${old}.metadata.json`);
  }
  for (const snapshot of table?.snapshots ?? []) {
    needed.add(nameOf(snapshot['manifest-list']));
    for (const { path } of await readManifests(place, objects, snapshot, budgetOfCommit()))
      needed.add(nameOf(path));
  }
  const left: string[] = [];
  for await (const { key } of objects.list(metadataFolder(place))) {
    if (!needed.has(nameOf(key))) left.push(nameOf(key));
  }
  return left;
}

let objects: MemoryObjects;
beforeEach(() => {
  objects = memoryObjects();
});

const commit = (files: IntervalFiles, changes: Parameters<typeof commitTo>[1] = {}) =>
  commitInterval(commitTo(objects, changes), files);

const pathOf = (files: IntervalFiles) => place.uri(files.files[0]?.key ?? '');

async function expectPaths(...files: readonly IntervalFiles[]): Promise<void> {
  const { current, faults } = await readTable(place, objects);
  expect(faults).toEqual([]);
  expect([...current.keys()].toSorted()).toEqual(files.map(pathOf).toSorted());
}

const findLeft = () => findTableLeftovers(place, objects);

/** A store at which a worker does no more after some writes: its process has died. */
function dyingAfter(writes: number): TableObjects {
  let left = writes;
  const spend = () => {
    left -= 1;
    if (left < 0) throw new Error('killed');
  };
  return {
    ...objects,
    async put(...args) {
      spend();
      return objects.put(...args);
    },
    async remove(keys) {
      spend();
      return objects.remove(keys);
    },
  };
}

describe('what a worker leaves that dies in a commit', () => {
  // Manifest, list, the trial of the store's conditions: three puts before that of the version.
  const beforeVersion = 3;
  const die = (files: IntervalFiles, writes = beforeVersion) =>
    expect(commitInterval(commitTo(dyingAfter(writes)), files)).rejects.toThrow('killed');

  it('goes with the next commit of the interval', async () => {
    await commit(filesOf(0));
    await die(filesOf(1));
    expect(await findLeft()).toHaveLength(2);
    await commit(filesOf(1, 2, { mayHaveLeft: true }));
    expect(await findLeft()).toEqual([]);
    await expectPaths(filesOf(0), filesOf(1, 2));
  });

  it('goes at last with another', async () => {
    await commit(filesOf(0));
    await die(filesOf(1));
    const all = [filesOf(0)];
    expect(await findLeft()).toHaveLength(2);
    for (let hour = 2; hour <= collectEvery; hour += 1) {
      all.push(filesOf(hour));
      await commit(filesOf(hour));
    }
    expect(await findLeft()).toEqual([]);
    await expectPaths(...all);
  });

  it('is not taken for what another writer has just written', async () => {
    await commit(filesOf(0));
    let resume = () => {};
    let other: Promise<void> | null = null;
    const startOther = () =>
      new Promise<void>((isAtItsPut) => {
        const confirm = () =>
          new Promise<void>((resolve) => {
            resume = resolve;
            isAtItsPut();
          });
        other = commit(filesOf(2), { confirm });
      });
    const watched: TableObjects = {
      ...objects,
      async *list(prefix) {
        await startOther();
        yield* objects.list(prefix);
      },
    };
    await commit(filesOf(1, 2, { mayHaveLeft: true }), { objects: watched });
    resume();
    await other;
    await expectPaths(filesOf(0), filesOf(1, 2), filesOf(2));
  });

  it('never is what a snapshot needs, in random histories', async () => {
    for (let seed = 1; seed <= (isNightly ? 8 : 3); seed += 1) {
      objects = memoryObjects();
      await runHistory(seed);
    }
  });

  /** Commits, re-runs, deaths at any write, two writers, and the end of snapshots, in any order. */
  async function runHistory(seed: number): Promise<void> {
    const random = randomOf(seed, 'history').next;
    const current = new Map<number, IntervalFiles>();
    let generation = 0;
    let now = firstNow;
    for (let step = 0; step < 40; step += 1) {
      generation += 1;
      now += Math.floor(random() * 3 * dayMs);
      const readNow = async () => now;
      const hour = Math.floor(random() * 12);
      const files = filesOf(hour, generation, { mayHaveLeft: random() < 0.2 });
      const fate = random();
      if (fate < 0.3) {
        const dying = dyingAfter(Math.floor(random() * 7));
        const died = await commitInterval(commitTo(dying, { readNow }), files).then(
          () => false,
          () => true,
        );
        // Its successor ends the interval, as the run's next attempt does.
        generation += died ? 1 : 0;
        const next = died ? filesOf(hour, generation, { mayHaveLeft: random() < 0.5 }) : files;
        await commit(next, { readNow });
        current.set(hour, next);
      } else if (fate < 0.5) {
        const other = (hour + 1) % 12;
        const meanwhile = filesOf(other, generation + 1, { mayHaveLeft: true });
        let isFirst = true;
        const confirm = async () => {
          if (isFirst) await commit(meanwhile, { readNow });
          isFirst = false;
        };
        await commit(files, { readNow, confirm });
        generation += 1;
        current.set(other, meanwhile).set(hour, files);
      } else if (fate < 0.6) {
        await expireSnapshots(commitTo(objects, { readNow }));
      } else {
        await commit(files, { readNow });
        current.set(hour, files);
      }
      if (step % 5 === 0) await expectPaths(...current.values());
    }
    await commit(filesOf(20, generation + 1, { mayHaveLeft: true }), { readNow: async () => now });
    expect(await findLeft(), `seed ${seed}`).toEqual([]);
  }
});

it('a writer that is slow to read goes on if the version that the hint named was removed meanwhile', async () => {
  await commit(filesOf(0));
  let isFirst = true;
  const slow: TableObjects = {
    ...objects,
    async read(key, maxBytes) {
      if (isFirst && key.endsWith('v1.metadata.json')) {
        isFirst = false;
        for (let generation = 2; generation < 30; generation += 1) {
          await commit(filesOf(0, generation));
        }
      }
      return objects.read(key, maxBytes);
    },
  };
  await commit(filesOf(1), { objects: slow });
  await expectPaths(filesOf(0, 29), filesOf(1));
  // One that is missing stays an error.
  objects.kept.delete(
    `p/metadata/v${objects.kept.get('p/metadata/version-hint.text')}.metadata.json`,
  );
  expect(await codeOf(commit(filesOf(2)))).toBe('destination.table_damaged');
});

describe('a writer that freezes between its metadata and the put of its version', () => {
  type Meanwhile = () => Promise<void>;

  /** The lease is not asked again after this point, so the store's condition alone stops the writer. */
  function freezing(meanwhile: Meanwhile): { at: TableObjects; wasFrozen: () => boolean } {
    let isFrozen = false;
    const at: TableObjects = {
      ...objects,
      async put(key, bytes, expected) {
        const isVersion = /v\d+\.metadata/.test(key);
        if (isVersion && !isFrozen) {
          isFrozen = true;
          await meanwhile();
        }
        return objects.put(key, bytes, expected);
      },
    };
    return { at, wasFrozen: () => isFrozen };
  }

  function newest() {
    const version = String(objects.kept.get('p/metadata/version-hint.text'));
    const { snapshots } = JSON.parse(
      String(objects.kept.get(`p/metadata/v${version}.metadata.json`)),
    );
    return {
      ids: snapshots.map((snapshot: { 'snapshot-id': number }) => snapshot['snapshot-id']),
      rows: snapshots.at(-1).summary['total-records'],
    };
  }

  /** The table as others see it while the writer is frozen, and how the writer ends after it. */
  async function freezeIn(files: IntervalFiles, meanwhile: Meanwhile) {
    await commit(filesOf(0));
    let before = newest();
    const { at, wasFrozen } = freezing(async () => {
      await meanwhile();
      before = newest();
    });
    const end = await commit(files, { objects: at }).then(
      () => 'done',
      (error: unknown) => codeOf(Promise.reject(error)),
    );
    expect(wasFrozen()).toBe(true);
    return { end, before };
  }

  it('adds nothing if another has committed the same files, and a later interval', async () => {
    const { end, before } = await freezeIn(filesOf(1), async () => {
      await commit(filesOf(1));
      await commit(filesOf(2));
    });
    expect(end).toBe('done');
    expect(newest()).toEqual(before);
    expect(newest()).toMatchObject({ ids: { length: 3 }, rows: '30' });
    await expectPaths(filesOf(0), filesOf(1), filesOf(2));
    expect(await findLeft()).toEqual([]);
  });

  it('is refused if the interval has a later generation', async () => {
    const { end, before } = await freezeIn(filesOf(1), async () => {
      await commit(filesOf(1, 2));
      await commit(filesOf(2));
    });
    expect(end).toBe('destination.conflict');
    expect(newest()).toEqual(before);
    await expectPaths(filesOf(0), filesOf(1, 2), filesOf(2));
    expect(await findLeft()).toEqual([]);
  });

  it('keeps the snapshots of others if it has the newest generation', async () => {
    const { end, before } = await freezeIn(filesOf(1, 2), async () => {
      await commit(filesOf(1));
      await commit(filesOf(2));
    });
    expect(end).toBe('done');
    expect(newest().ids.slice(0, -1)).toEqual(before.ids);
    expect(newest()).toMatchObject({ ids: { length: 4 }, rows: '30' });
    await expectPaths(filesOf(0), filesOf(1, 2), filesOf(2));
    expect(await findLeft()).toEqual([]);
  });
});

describe('a put of a version that takes effect late', () => {
  /** The worker gets no answer, and the store goes on with its request when `arrive` is called. */
  async function sendLate(files: IntervalFiles): Promise<() => Promise<boolean>> {
    let late: () => Promise<boolean> = async () => false;
    const slow: TableObjects = {
      ...objects,
      async put(key, bytes, expected) {
        if (!/v\d+\.metadata/.test(key)) return objects.put(key, bytes, expected);
        late = () => objects.put(key, bytes, expected);
        throw new Error('no answer');
      },
    };
    await expect(commitInterval(commitTo(slow), files)).rejects.toThrow('no answer');
    return late;
  }

  it('before the next attempt: its files are replaced', async () => {
    await commit(filesOf(0));
    const arrive = await sendLate(filesOf(1));
    expect(await arrive()).toBe(true);
    await expectPaths(filesOf(0), filesOf(1));
    await commit(filesOf(1, 2, { mayHaveLeft: true }));
    await expectPaths(filesOf(0), filesOf(1, 2));
    expect(await findLeft()).toEqual([]);
  });

  it('after the next attempt: it is refused', async () => {
    await commit(filesOf(0));
    const arrive = await sendLate(filesOf(1));
    await commit(filesOf(1, 2, { mayHaveLeft: true }));
    expect(await arrive()).toBe(false);
    await expectPaths(filesOf(0), filesOf(1, 2));
  });

  it('after its number was removed: no reader and no writer sees it, and it is removed', async () => {
    await commit(filesOf(0));
    const arrive = await sendLate(filesOf(1));
    await commit(filesOf(1, 2, { mayHaveLeft: true }));
    for (let generation = 2; generation < 30; generation += 1) await commit(filesOf(0, generation));
    expect(await arrive()).toBe(true);
    expect(await findLeft()).toEqual(['v2.metadata.json']);
    await expectPaths(filesOf(0, 29), filesOf(1, 2));
    await commit(filesOf(3, 1, { mayHaveLeft: true }));
    expect(await findLeft()).toEqual([]);
    await expectPaths(filesOf(0, 29), filesOf(1, 2), filesOf(3));
  });
});

describe('a store that answers 200 to a condition that does not hold', () => {
  const lying = (keeps: (key: string) => boolean, replaces: boolean): TableObjects => ({
    ...objects,
    async put(key, bytes, expected) {
      if (keeps(key)) return objects.put(key, bytes, expected);
      if (replaces || !objects.kept.has(key)) objects.kept.set(key, Buffer.from(bytes));
      return true;
    },
  });

  it.each([true, false])('is refused before the put (replaces: %s)', async (replaces) => {
    await commit(filesOf(0));
    const commitToLiar = () => commit(filesOf(1), { objects: lying(() => false, replaces) });
    expect(await codeOf(commitToLiar())).toBe('destination.invalid_config');
    await expect(commitToLiar()).rejects.toThrow(/If-None-Match: \*/);
    await expectPaths(filesOf(0));
    expect(await findLeft()).toEqual([]);
  });

  it('for a version alone is noticed as it is read back', async () => {
    await commit(filesOf(0));
    let isFirst = true;
    const confirm = async () => {
      if (isFirst) await commit(filesOf(1));
      isFirst = false;
    };
    const liar = lying((key) => !key.endsWith('.metadata.json'), false);
    await commit(filesOf(2), { objects: liar, confirm });
    await expectPaths(filesOf(0), filesOf(1), filesOf(2));
  });
});
