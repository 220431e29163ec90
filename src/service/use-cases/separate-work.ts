import { isDatabaseUnavailable } from '../../state/store/database/unavailable.ts';

/** Pieces of work for different exports or of different kinds. A piece that fails does not keep the others from being done. */
export class SeparateWork {
  readonly #errors: unknown[] = [];

  /** Does a piece, and keeps its error. @returns undefined if it failed */
  async do<Result>(piece: () => Result): Promise<Awaited<Result> | undefined> {
    try {
      return await piece();
    } catch (error) {
      this.#errors.push(error);
      return undefined;
    }
  }

  /** @throws what failed. An unreachable database is named only if nothing else failed */
  end(): void {
    const own = this.#errors.filter((error) => !isDatabaseUnavailable(error));
    const [first] = own.length > 0 ? own : this.#errors;
    if (own.length > 1) throw new AggregateError(own, own.map(String).join('; '));
    if (first !== undefined) throw first;
  }
}

/** Does all pieces, one after the other. @throws what failed */
export async function doEach(pieces: readonly (() => unknown)[]): Promise<void> {
  const work = new SeparateWork();
  for (const piece of pieces) await work.do(piece);
  work.end();
}
