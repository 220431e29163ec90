import { quoted } from './own-schema.ts';
import { withClient } from './migrate.ts';
import { ReadOnlyError } from './unavailable.ts';

/** The server or the database cannot hold our own tables; the message has the remedy. */
export class ServerError extends Error {
  override readonly name = 'ServerError';
}

interface Facts {
  readonly version: string;
  readonly number: number;
  readonly encoding: string;
  readonly isReadOnly: boolean;
  /** The origin of `default_transaction_read_only`, as `pg_settings` names it. */
  readonly readOnlySource: string | null;
  readonly role: string;
  readonly database: string;
}

const oldest = 15;

/** @returns its version @throws ServerError for what an operator must change; ReadOnlyError for what can end by itself */
export async function checkServer(connectionString: string): Promise<string> {
  const facts = await withClient(connectionString, async (client) => {
    const { rows } = await client.query<Facts>(
      `select split_part(current_setting('server_version'), ' ', 1) as version,
              current_setting('server_version_num')::int as number,
              current_setting('server_encoding') as encoding,
              current_setting('transaction_read_only')::boolean as "isReadOnly",
              (select source from pg_settings where name = 'default_transaction_read_only' and setting = 'on') as "readOnlySource",
              current_user as role, current_database() as database`,
    );
    return rows[0];
  });
  if (!facts) throw new Error('no row');
  const fault = findFault(facts);
  if (fault !== null) throw new ServerError(`DATABASE_URL: ${fault}`);
  if (facts.isReadOnly) throw new ReadOnlyError();
  return facts.version;
}

function findFault({ version, number, encoding, readOnlySource, ...names }: Facts): string | null {
  const [role, database] = [quoted(names.role), quoted(names.database)];
  if (number < oldest * 10_000) {
    return `PostgreSQL ${version} is too old. Use PostgreSQL ${oldest} or later.`;
  }
  if (encoding !== 'UTF8') {
    return (
      `the encoding of the database ${names.database} is ${encoding}, and Sluice needs UTF8. ` +
      `Create another one: CREATE DATABASE <name> OWNER ${role} ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0; The database of the rows to export may keep its encoding.`
    );
  }
  const reset: Readonly<Record<string, string>> = {
    user: `ALTER ROLE ${role} RESET default_transaction_read_only;`,
    database: `ALTER DATABASE ${database} RESET default_transaction_read_only;`,
    'database user': `ALTER ROLE ${role} IN DATABASE ${database} RESET default_transaction_read_only;`,
    client: 'remove default_transaction_read_only from the options of the address.',
  };
  const remedy = reset[readOnlySource ?? ''];
  return remedy === undefined
    ? null
    : `the role ${names.role} is read-only by its default_transaction_read_only, and Sluice writes its own tables. Log in as another role, or: ${remedy}`;
}
