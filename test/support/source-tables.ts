import type pg from 'pg';
import type { RowBlock } from '../../src/foundation/domain/row-block.ts';
import type { SourceRequest, SourceSnapshot } from '../../src/rows/sources/source.ts';

/** The `events` relation of a source database, as contract.md section 5 exports it. */
export const createEvents = `
  CREATE TABLE events (
    uuid uuid PRIMARY KEY, team_id int NOT NULL, event text, distinct_id text, properties jsonb,
    person_id uuid, person_properties jsonb, elements_chain text, "timestamp" timestamptz,
    created_at timestamptz, inserted_at timestamptz NOT NULL DEFAULT now());
  CREATE INDEX ON events (team_id, inserted_at)`;

/** `count` events of a team, `everyMs` apart from `start` on; `perInstant` of them share each time. */
export async function insertEvents(
  client: pg.ClientBase | pg.Pool,
  given: {
    readonly team: number;
    readonly start: string;
    readonly count: number;
    readonly everyMs: number;
    readonly perInstant?: number;
    /** Characters of text in each row beyond about 200. */
    readonly padding?: number;
  },
): Promise<void> {
  const { team, start, count, everyMs, perInstant = 1, padding = 0 } = given;
  await client.query(
    `INSERT INTO events
     SELECT gen_random_uuid(), $1, 'event ' || n % 3, 'user ' || n % 7,
            jsonb_build_object('n', n, 'pad', repeat(md5(n::text), $6 / 32)), gen_random_uuid(),
            '{"plan": "größe"}', CASE WHEN n % 2 = 0 THEN '' END, at, at, at
       FROM generate_series(0, $3 - 1) n,
            LATERAL (SELECT $2::timestamptz + n / $5 * $4 * interval '1 ms' AS at) t`,
    [team, start, count, everyMs, perInstant, padding],
  );
}

export function eventsRequest(
  teamId: number,
  start: string,
  end: string,
  filters: Partial<SourceRequest> = {},
): SourceRequest {
  return {
    model: 'events',
    tenantKey: String(teamId),
    interval: { start: Date.parse(start), end: Date.parse(end) },
    dslQuery: null,
    includeEvents: null,
    excludeEvents: null,
    ...filters,
  };
}

/** The rows of project 1 in the hour from 2024-03-01T00:00Z, unless a test asks for others. */
export const hourRequest = (changes: Partial<SourceRequest> = {}): SourceRequest =>
  eventsRequest(1, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', changes);

/** All blocks of a snapshot, slice after slice. */
export async function readAll(
  snapshot: SourceSnapshot,
  signal: AbortSignal,
): Promise<readonly RowBlock[]> {
  const blocks: RowBlock[] = [];
  for (const slice of snapshot.slices) {
    for await (const block of snapshot.read(slice, signal)) blocks.push(copyOf(block));
  }
  return blocks;
}

/** The source uses a block's memory again. */
function copyOf(block: RowBlock): RowBlock {
  const { bytes, offsets, lengths } = block;
  return {
    ...block,
    bytes: Buffer.from(bytes),
    offsets: offsets.slice(),
    lengths: lengths.slice(),
  };
}

/** The raw bytes of one column, row after row; null for null. */
export function columnBytes(blocks: readonly RowBlock[], name: string): (Buffer | null)[] {
  return blocks.flatMap(({ columns, rowCount, bytes, offsets, lengths }) => {
    const column = columns.findIndex((candidate) => candidate.name === name);
    if (column < 0) throw new Error(`there is no column ${name}`);
    return Array.from({ length: rowCount }, (_, row) => {
      const field = row * columns.length + column;
      const from = offsets[field] as number;
      const length = lengths[field] as number;
      return length < 0 ? null : bytes.subarray(from, from + length);
    });
  });
}
