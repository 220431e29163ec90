import type { Client } from 'pg';

/** What PostgreSQL says about a statement, without executing it: object ids of types. */
interface StatementTypes {
  readonly parameters: readonly number[];
  readonly columns: readonly { readonly name: string; readonly type: number }[];
}

interface Connection extends NodeJS.EventEmitter {
  parse(query: { text: string }): void;
  describe(what: { type: 'S' }): void;
  sync(): void;
}

/** Messages of the server that are not the answer to a query, but to a description. */
interface Descriptions {
  parameterDescription: { readonly dataTypeIDs: readonly number[] };
  rowDescription: { readonly fields: readonly { readonly name: string; dataTypeID: number }[] };
}

/** @throws the error of PostgreSQL if it does not accept the statement */
export async function describeStatement(client: Client, text: string): Promise<StatementTypes> {
  let parameters: StatementTypes['parameters'] = [];
  let columns: StatementTypes['columns'] = [];
  await new Promise<void>((resolve, reject) => {
    const note = ({ dataTypeIDs }: Descriptions['parameterDescription']) => {
      parameters = dataTypeIDs;
    };
    client.query({
      submit(connection: Connection) {
        connection.removeAllListeners('parameterDescription').once('parameterDescription', note);
        connection.parse({ text });
        connection.describe({ type: 'S' });
        connection.sync();
      },
      handleRowDescription({ fields }: Descriptions['rowDescription']) {
        columns = fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
      },
      handleError: reject,
      handleReadyForQuery: resolve,
    } as never);
  });
  return { parameters, columns };
}
