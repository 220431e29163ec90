import type { FormatSettings } from './format-settings.ts';

/** A step of a transformation chain, as a run uses it: a version of a config never changes. */
export interface PinnedStep {
  readonly config: number;
  readonly version: number;
  /** SHA-256 of the source of its plugin, hexadecimal; absent: a built-in plugin. */
  readonly source?: string;
}

/** Counts the steps of a chain that have an organization's own plugin. */
export function ownStepsOf(chain: readonly PinnedStep[]): number {
  return chain.filter(({ source }) => source !== undefined).length;
}

/** A step that made files. */
export interface RecipeStep extends PinnedStep {
  /** SHA-256 of its plugin, the plugin's source and its settings without secrets, hexadecimal. */
  readonly digest: string;
}

/** The settings that made the files of an interval. Of the format's it has those that are not the usual ones. */
export interface Recipe extends Partial<FormatSettings> {
  readonly format: string;
  readonly compression: string | null;
  readonly dslQuery: string | null;
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
  /** The steps of the transformation chain, in its order; absent if no step changed the rows. */
  readonly chain?: readonly RecipeStep[];
  /** The columns, with PostgreSQL's types, of files that have no manifest or do not name their columns. */
  readonly schema?: readonly { readonly name: string; readonly type: string }[];
  /** SHA-256 of the columns and types that the manifest names, hexadecimal; absent: no manifest, or it is not known. */
  readonly schemaDigest?: string;
  /** Columns, or date parts of columns, whose values are the folders of the files; absent: no folders. */
  readonly partitionBy?: readonly string[];
  /** A file ends once it has this many bytes; only with a chain. */
  readonly maxFileBytes?: number | null;
}

export interface StepCount {
  readonly config: number;
  readonly in: number;
  readonly out: number;
  readonly dropped: number;
  readonly errored: number;
  /** Whole milliseconds that the step took for these rows. */
  readonly timeMs: number;
  /** The reason of the first error; null without errors. */
  readonly error: string | null;
}
