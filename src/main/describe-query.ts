import type { DescribedRows, DescribeQuery } from '../service/api/options.ts';
import { SluiceError } from '../foundation/domain/errors.ts';
import { BoundedMap } from '../rows/query/bounded-map.ts';
import type { SourceOf } from './models.ts';

/** Characters of the requests that are remembered as described. */
const keptCharacters = 200_000;
/** The source's tables may change. */
const keptMs = 300_000;
/** The time in which a source that did not answer is not asked again: each request would wait for it. */
const silentMs = 5_000;

/**
 * Asks the source whether a request can run. Remembers what can, and sources that do not answer.
 *
 * @param patienceMs maximum time, since a request waits for it
 * @param now a clock in ms that never goes back
 */
export function describeQueryOf(
  sourceOf: SourceOf,
  tenantKeyOf: (teamId: number) => Promise<string>,
  patienceMs = 5_000,
  now = () => performance.now(),
): DescribeQuery {
  const descriptions = new BoundedMap<
    string,
    { readonly rows: DescribedRows; readonly at: number }
  >(keptCharacters);
  const silentSince = new Map<string, number>();
  return async (request, inSlot, signal) => {
    const { teamId, ...rest } = request;
    const key = JSON.stringify(rest);
    const described = descriptions.get(key);
    if (described && now() - described.at < keptMs) return described.rows;
    const { model } = request;
    if (now() - (silentSince.get(model) ?? Number.NEGATIVE_INFINITY) < silentMs) {
      throw new SluiceError('source.unavailable', 'it did not answer a few seconds ago');
    }
    return inSlot(async () => {
      const patience = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
      try {
        const query = { ...rest, tenantKey: await tenantKeyOf(teamId) };
        const { columns, warnings } = await sourceOf(model).describe(query, patience);
        const rows = {
          columns: columns.map(({ name, sourceType }) => ({ name, sourceType })),
          warnings,
        };
        const size = key.length + JSON.stringify(rows).length;
        descriptions.set(key, { rows, at: now() }, size);
        silentSince.delete(model);
        return rows;
      } catch (error) {
        signal.throwIfAborted();
        const isSilent = patience.aborted || isTransient(error);
        if (isSilent) silentSince.set(model, now());
        throw patience.aborted ? new SluiceError('source.timeout') : error;
      }
    });
  };
}

const isTransient = (error: unknown) => error instanceof SluiceError && error.spec.retryable;
