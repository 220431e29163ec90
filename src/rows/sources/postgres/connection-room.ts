import { type ConnectionOptions, closeConnection, connect } from './connection.ts';
import { queryServer } from './own-statement.ts';

export interface ConnectionRoom {
  /** In words: `the server (max_connections = 100, 3 of them reserved)`. */
  readonly of: string;
  /** The same for all addresses that share it. */
  readonly key: string;
  readonly most: number;
  readonly remedy: string;
}

interface Row {
  readonly server: string;
  readonly role: string;
  readonly database: string;
  readonly isSuperuser: boolean;
  readonly most: number;
  readonly reserved: number;
  readonly ofRole: number;
  readonly ofDatabase: number;
}

/** The limits of connections to an address: those of the server, and of the role and the database if they have one. */
export async function readConnectionRoom(
  options: ConnectionOptions,
  signal: AbortSignal,
): Promise<readonly ConnectionRoom[]> {
  const client = await connect(options, signal);
  try {
    const [row] = await queryServer<Row & Record<string, unknown>>(
      client,
      `SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), current_setting('port')) AS server,
              session_user AS role, current_database() AS database, r.rolsuper AS "isSuperuser",
              current_setting('max_connections')::int AS most,
              current_setting('superuser_reserved_connections')::int
                + coalesce(current_setting('reserved_connections', true), '0')::int AS reserved,
              r.rolconnlimit AS "ofRole", d.datconnlimit AS "ofDatabase"
         FROM pg_roles AS r, pg_database AS d
        WHERE r.rolname = session_user AND d.datname = current_database()`,
      signal,
    );
    return row ? roomsOf(row) : [];
  } finally {
    await closeConnection(client);
  }
}

function roomsOf({ server, role, database, ...row }: Row): readonly ConnectionRoom[] {
  const ofServer = {
    of: `the server (max_connections = ${row.most}, ${row.reserved} of them reserved)`,
    key: `server ${server}`,
    most: row.most - row.reserved,
    remedy: 'max_connections',
  };
  // Neither applies to a superuser; below 0 there is none.
  const ofRole = { limit: row.ofRole, name: `ROLE "${role}"` };
  const ofDatabase = { limit: row.ofDatabase, name: `DATABASE "${database}"` };
  const others = [ofRole, ofDatabase].filter(({ limit }) => limit >= 0 && !row.isSuperuser);
  return [
    ofServer,
    ...others.map(({ limit, name }) => ({
      of: `the ${name.replace(/^\w+/, (kind) => kind.toLowerCase())} (CONNECTION LIMIT ${limit})`,
      key: `${name} ${server}`,
      most: limit,
      remedy: `ALTER ${name} CONNECTION LIMIT`,
    })),
  ];
}
