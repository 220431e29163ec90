import type { Destination } from '../destinations/destination.ts';
import type { Recipe } from '../domain/recipe.ts';
import type { RenderedInterval } from '../pipeline/render-interval.ts';
import type { Source, SourceRequest } from '../sources/source.ts';
import type { Receipt } from '../store/receipts.ts';
import type { VerifiedExport } from '../store/verify-queries.ts';
import type { ReadRows } from '../pipeline/read-back.ts';

/** What an interval is verified with. */
export interface VerifiedInterval {
  readonly batchExport: VerifiedExport;
  readonly destination: Destination;
  readonly source: Source;
  readonly readRows: ReadRows;
  readonly renderAgain: RenderAgain;
  readonly signal: AbortSignal;
}

/**
 * Makes the files of an interval again with the chain that its recipe names, in a folder of ours.
 *
 * @throws SluiceError `transformation.invalid` if a step cannot run any more
 */
export type RenderAgain = (
  receipt: Receipt,
  recipe: Recipe,
  request: SourceRequest,
  folder: string,
  signal: AbortSignal,
) => Promise<RenderedInterval>;
