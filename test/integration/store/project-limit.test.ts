import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import {
  joinTransaction,
  type Sql,
  type Transactor,
} from '../../../src/state/store/database/database.ts';
import { insertProject } from '../../../src/state/store/tenants/tenants.ts';
import { exportOfThePast, openRunSide, type RunSide } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { until } from '../../support/until.ts';

let side: RunSide;
let teamId: number;
/** Creations that are farther from the limit do not wait. */
let distance: number;

beforeAll(async () => {
  side = await openRunSide();
  const [row] = await side.db.query<{ distance: number }>(
    `select 3 * current_setting('max_connections')::int as distance`,
  );
  distance = row?.distance ?? 0;
});
afterAll(() => side.stop());

beforeEach(async () => {
  const { organizationId } = side.tenant;
  ({ id: teamId } = await insertProject(side.db, { organizationId, name: 'Limited' }));
});

async function addExports(sql: Sql, count: number): Promise<void> {
  await sql.query(
    `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at)
     select $1, 'n' || n, 'NoOp', '{}', 'hour', '{}', now() from generate_series(1, $2::int) n`,
    [teamId, count],
  );
}

/** @returns false if the project is full */
async function createOne(db: Transactor, maximum: number): Promise<boolean> {
  return (await storeExport(db, await exportOfThePast({ db, teamId }), maximum)) !== null;
}

/** A transaction that creates an export if there is room, and ends when `end` is called. */
function creation(maximum: number) {
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let ended: Promise<void> = Promise.resolve();
  const answered = new Promise<boolean>((resolve, reject) => {
    ended = side.db.transaction(async (tx) => {
      resolve(await createOne(joinTransaction(tx), maximum));
      await finished;
    });
    ended.catch(reject);
  });
  answered.catch(() => {});
  const end = (): Promise<void> => {
    finish();
    return ended;
  };
  return { answered, end };
}

const creationsWait = (count: number) =>
  until(async () => {
    const rows = await side.db.query(
      `select from pg_locks where locktype = 'advisory' and objid = $1 and not granted`,
      [teamId],
    );
    return rows.length === count;
  });

it('far from the limit, a creation does not wait for another one of the project', async () => {
  const first = creation(distance + 2);
  const second = creation(distance + 2);
  expect(await Promise.all([first.answered, second.answered])).toEqual([true, true]);
  await Promise.all([first.end(), second.end()]);
});

it('near the limit, a creation waits for the one before it', async () => {
  const first = creation(1);
  expect(await first.answered).toBe(true);
  const second = creation(1);
  await creationsWait(1);
  await first.end();
  expect(await second.answered).toBe(false);
  await second.end();
});

it('a creation near the limit waits for one that began far from it', async () => {
  const maximum = distance + 2;
  const early = creation(maximum);
  expect(await early.answered).toBe(true);
  await addExports(side.db, maximum - 1);
  const late = creation(maximum);
  await creationsWait(1);
  await early.end();
  expect(await late.answered).toBe(false);
  await late.end();
});

it('creations at once near the limit fill it, and no more', async () => {
  const maximum = 3;
  const answers = await Promise.all(Array.from({ length: 8 }, () => createOne(side.db, maximum)));
  expect(answers.filter((isCreated) => isCreated)).toHaveLength(maximum);
});

it('a creation near the limit counts what one that began far from it adds', async () => {
  const maximum = distance + 2;
  const early = creation(maximum);
  expect(await early.answered).toBe(true);
  await addExports(side.db, maximum - 2);
  const late = creation(maximum);
  await creationsWait(1);
  await early.end();
  expect(await late.answered).toBe(true);
  await late.end();
  expect(await createOne(side.db, maximum)).toBe(false);
});
