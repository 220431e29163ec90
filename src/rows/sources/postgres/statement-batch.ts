import type { Connection, FieldDef, Submittable } from 'pg';

export interface BatchStatement {
  readonly sql: string;
  readonly describeOnly?: boolean;
}

export interface BatchAnswer {
  /** As text, in the order of the SELECT list; none of a statement that was only described. */
  readonly rows: readonly (readonly (string | null)[])[];
  readonly fields: readonly FieldDef[];
}

interface Flush {
  readonly index: number;
  readonly onAnswer: (answer: BatchAnswer) => void;
}

/** One round trip and one packet, by the extended protocol with one Sync. After an error the server skips the rest. */
export class StatementBatch implements Submittable {
  readonly answers: Promise<readonly BatchAnswer[]>;
  readonly #statements: readonly BatchStatement[];
  readonly #done: BatchAnswer[] = [];
  #rows: (readonly (string | null)[])[] = [];
  readonly #flush: Flush | null;
  #resolve: (answers: readonly BatchAnswer[]) => void = () => {};
  #reject: (error: Error) => void = () => {};

  constructor(statements: readonly BatchStatement[], flush: Flush | null = null) {
    this.#statements = statements;
    this.#flush = flush;
    this.answers = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  submit(connection: Connection): undefined {
    const { stream } = connection;
    stream.cork();
    for (const [index, { sql, describeOnly = false }] of this.#statements.entries()) {
      connection.parse({ name: '', text: sql, types: [] }, true);
      if (describeOnly) connection.describe({ type: 'S', name: '' }, true);
      else {
        connection.bind({ values: [] }, true);
        connection.execute({}, true);
      }
      if (index === this.#flush?.index) connection.flush();
    }
    connection.sync();
    stream.uncork();
  }

  handleParseComplete(): void {}

  handleRowDescription({ fields }: { readonly fields: readonly FieldDef[] }): void {
    this.#done.push({ rows: [], fields });
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.#rows.push(fields);
  }

  handleCommandComplete(): void {
    const answer = { rows: this.#rows, fields: [] };
    this.#done.push(answer);
    this.#rows = [];
    if (this.#done.length - 1 === this.#flush?.index) this.#flush.onAnswer(answer);
  }

  handleError(error: Error): void {
    // The server skips to the Sync that `submit` has already sent.
    this.#reject(error);
  }

  handleReadyForQuery(): void {
    if (this.#done.length === this.#statements.length) this.#resolve(this.#done);
    else this.#reject(new Error('the server left out an answer'));
  }
}
