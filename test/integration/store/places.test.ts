import { describe, expect, it } from 'vitest';
import { beginCommit } from '../../../src/store/attempt-steps.ts';
import type { ClaimedRun } from '../../../src/store/leases.ts';
import { listLeftoverFiles } from '../../../src/store/leftover-files.ts';
import { noteUpload } from '../../../src/store/uploads.ts';
import {
  hasLiveRuns,
  listKnownKeys,
  listLeftoverKeys,
  listPlaces,
} from '../../../src/store/verify-queries.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  firstRun,
} from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();

/** The first attempt of an export of the past, in one of the tenant's two projects. */
async function firstAttempt(project: 0 | 1 = 0): Promise<ClaimedRun> {
  const teamId = side.tenant.projectIds[project];
  const { id } = await createExportOfThePast(side, { teamId });
  await decide(side.context);
  return claim(side, (await firstRun(side.db, id)).id);
}

const commitOf = ({ fileGeneration: generation }: ClaimedRun, keys: readonly string[]) => ({
  ...{ generation, destinationVersion: 0, manifestKey: 'm.json', keys: [...keys, 'm.json'] },
});

describe('keys of one place', () => {
  it('do not hold up the removal of the same keys at the place of another tenant', async () => {
    const ours = await firstAttempt(0);
    await beginCommit(side.db, ours, 60_000, {}, commitOf(ours, ['p/a.jsonl']));
    await complete(side.context, ours);
    const theirs = await firstAttempt(1);
    await noteUpload(side.db, theirs, 'p/a.jsonl');
    const left = await listLeftoverFiles(side.db, ours);
    expect(left.map(({ key }) => key)).toEqual(['m.json', 'p/a.jsonl']);
  });

  it('are not those of another place for `verify`', async () => {
    const ours = await firstAttempt(0);
    await complete(side.context, ours);
    const theirs = await firstAttempt(1);
    await beginCommit(side.db, theirs, 60_000, {}, commitOf(theirs, ['p/b.jsonl']));
    const places = await listPlaces(side.db);
    const at = ({ exportId }: ClaimedRun) => places.filter((one) => one.exportId === exportId);
    expect([...(await listKnownKeys(side.db, at(ours)))]).toEqual(['manifest.json']);
    expect([...(await listKnownKeys(side.db, at(theirs)))]).toEqual([]);
    expect([...(await listLeftoverKeys(side.db, at(ours)))]).toEqual([]);
    expect([...(await listLeftoverKeys(side.db, at(theirs)))].sort()).toEqual([
      'm.json',
      'p/b.jsonl',
    ]);
    expect(await hasLiveRuns(side.db, [ours.exportId])).toBe(false);
    expect(await hasLiveRuns(side.db, [ours.exportId, theirs.exportId])).toBe(true);
  });
});
