import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from './database.ts';
import { queryRows } from './statement.ts';
import { prepared } from './prepared.ts';
import { live } from '../runs/run-moves.ts';

/** A part of our database's history without a restore or failover. */
export interface Era {
  readonly id: string;
  readonly number: number;
  /** No work is done: these tables are a restored dump or a copy that no operator has accepted yet. */
  readonly held: boolean;
}

export interface ListedEra extends Era, Place {
  readonly reason: string;
  readonly beganAt: Timestamp;
  readonly acceptedAt: Timestamp | null;
}

interface Place {
  readonly systemIdentifier: string | null;
  readonly timeline: number | null;
  readonly databaseOid: number | null;
  readonly erasOid: number | null;
}

const eraColumns = `e.id, e.number, e.needs_acceptance and e.accepted_at is null as held`;
const placeColumns = (alias: string) =>
  `${alias}.system_identifier as "systemIdentifier", ${alias}.timeline, ${alias}.database_oid as "databaseOid", ${alias}.eras_oid as "erasOid"`;

/** Makes the first one, or the next after a restore, a copy or a failover. Otherwise one indexed read. */
export async function currentEra(sql: Sql): Promise<Era> {
  const [found] = await sql.query<EraFacts>(prepared(`select ${eraFacts}`));
  if (!found) throw new Error('no row');
  return resolveEra(sql, found);
}

/** The facts that show whether the newest era is still the current one. */
export interface EraFacts {
  readonly newestEra: (Era & Place) | null;
  readonly place: Place;
}

/** SQL of the columns of `EraFacts`, for a statement that asks other things too. */
export const eraFacts = `(select to_jsonb(n) from (select ${eraColumns}, ${placeColumns('e')}
     from eras e order by e.number desc limit 1) n) as "newestEra",
  (select to_jsonb(n) from (select ${placeColumns('p')} from read_place() p) n) as place`;

/** Does what `currentEra` does, with facts that another statement has just read. */
export async function resolveEra(sql: Sql, { newestEra: newest, place }: EraFacts): Promise<Era> {
  const moves = newest ? findMoves(newest, place) : [];
  if (newest && moves.length === 0) {
    const { id, number, held } = newest;
    return { id, number, held };
  }
  await insertEra(sql, newest, moves, place);
  const [current] = await sql.query<Era>(
    `select ${eraColumns} from eras e order by e.number desc limit 1`,
  );
  if (!current) throw new Error('no row');
  return current;
}

interface Move {
  /** `the timeline (1 → 2)` */
  readonly text: string;
  /** These tables may exist twice: the original may still be in use. */
  readonly isCopy: boolean;
}

/** Values that the server does not report are not compared. */
function findMoves(before: Place, now: Place): Move[] {
  const facts = [
    ['the system identifier', before.systemIdentifier, now.systemIdentifier, true],
    ['the database', before.databaseOid, now.databaseOid, true],
    ['the tables', before.erasOid, now.erasOid, true],
    ['the timeline', before.timeline, now.timeline, false],
  ] as const;
  return facts.flatMap(([what, was, is, isCopy]) =>
    was === null || is === null || was === is ? [] : [{ text: `${what} (${was} → ${is})`, isCopy }],
  );
}

/** More than any run has claims. */
const fencesPerEra = 1_000_000_000;

/** If several processes notice it at once, one makes the era. */
async function insertEra(
  sql: Sql,
  before: Era | null,
  moves: readonly Move[],
  place: Place,
): Promise<void> {
  const isCopy = moves.some((move) => move.isCopy);
  const changed = moves.map(({ text }) => text).join(', ');
  const what = isCopy
    ? 'This database was restored from a dump, or copied'
    : 'The server failed over, or was recovered to a point in time';
  await sql.query(
    `with begun as (
       insert into eras (number, reason, system_identifier, timeline, database_oid, eras_oid, needs_acceptance)
       values ($1, $2, $3, $4, $5, $6, $7) on conflict (number) do nothing returning number
     )
     -- A worker of the lost history may hold a fence that this one would give out again, also of a run that no
     -- worker has claimed in this one.
     update runs set fence = fence + ${fencesPerEra}, lease_holder = null, era_generation = coalesce(committing_generation, 0),
            lease_expires_at = case when lease_expires_at is null then null else now() end
       from begun where begun.number > 1 and runs.status in ${live}`,
    [
      (before?.number ?? 0) + 1,
      before === null ? 'The first start.' : `${what}: changed ${changed}.`,
      place.systemIdentifier,
      place.timeline,
      place.databaseOid,
      place.erasOid,
      // A failover does not change that it is a copy.
      isCopy || (before?.held ?? false),
    ],
  );
}

export const listEras = queryRows<ListedEra>(`
     select ${eraColumns}, e.reason, e.began_at as "beganAt", e.accepted_at as "acceptedAt", ${placeColumns('e')}
       from eras e order by e.number`);

/** Why no work is done until an operator accepts the current era; null if it is not held. */
export async function findHold(sql: Sql): Promise<string | null> {
  const { held, number } = await currentEra(sql);
  if (!held) return null;
  const [era] = await sql.query<{ reason: string }>(`select reason from eras where number = $1`, [
    number,
  ]);
  return `${era?.reason ?? ''} No run starts until an operator runs \`sluice eras accept\`.`;
}

/** Allows work, and lets it replace what a lost history has put into buckets until now. May be repeated. */
export async function acceptEra(tx: Sql): Promise<ListedEra> {
  const { number } = await currentEra(tx);
  const [era] = await tx.query<ListedEra>(
    `update eras e set accepted_at = now() where number = $1
     returning ${eraColumns}, e.reason, e.began_at as "beganAt", e.accepted_at as "acceptedAt", ${placeColumns('e')}`,
    [number],
  );
  if (!era) throw new Error('no row');
  return era;
}
