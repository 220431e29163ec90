import type { BatchExport } from '../api-types.ts';
import type { Draft } from './draft.ts';
import type { ApiDescription } from './openapi.ts';

/** What each part of the form works with. */
export interface PartProps {
  readonly description: ApiDescription;
  readonly draft: Draft;
  readonly batchExport: BatchExport | null;
  readonly errors: ReadonlyMap<string, string>;
  readonly onChange: (part: Partial<Draft>) => void;
}
