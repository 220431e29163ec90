import type { Problem } from './outcome.ts';

/** What the plug-in rooms say of an export's parts. The composition root joins the two. */
export interface ExportRules {
  /** Names of the models that can be exported. */
  readonly models: readonly string[];
  readonly destinationTypes: readonly string[];
  /**
   * Every fault of a whole config, its secrets included; attributes begin with
   * `destination__config__`. `type` is one of `destinationTypes`.
   */
  checkDestination(type: string, config: Readonly<Record<string, unknown>>): readonly Problem[];
  /** Properties of the config that are sealed at rest and never answered. */
  secretProperties(type: string): readonly string[];
  /** The described form of a query, or what is wrong with it. */
  checkQuery(
    dslQuery: string,
    model: string,
  ):
    | { readonly ok: true; readonly schema: unknown }
    | { readonly ok: false; readonly problems: readonly Problem[] };
}
