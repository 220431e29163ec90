import type { PluginConfig } from '../../foundation/domain/plugin.ts';
import { type JsonText, kindOf, plainOf } from './json.ts';
import { editColumn, type Properties, propertiesOf } from './properties.ts';
import { requireNames } from './settings.ts';
import type { Apply } from './transform.ts';

/** The parts of a text, by name: `host`, `path`. */
export type Parts = ReadonlyMap<string, JsonText>;

const noParts: Parts = new Map();

/** The properties that parts are read out of, each by itself. */
export interface Sources {
  readonly column: string;
  readonly properties: readonly Properties[];
}

export function readSources(config: PluginConfig): Sources {
  const column = config.column ?? 'properties';
  const names = requireNames(config, 'properties');
  return { column, properties: names.map((name) => propertiesOf([name], column)) };
}

/**
 * A step that reads properties and adds what it finds beside them: `url` gives `url__host`. What
 * it reads out of a column goes into `properties`.
 *
 * @param read gives no parts for a text that has none, and nothing is added
 */
export function addParts({ column, properties }: Sources, read: (text: string) => Parts): Apply {
  return (row) => {
    const added = properties.flatMap((source) => {
      const [value] = source.read(row);
      const isText = value !== undefined && ['string', 'number'].includes(kindOf(value));
      const parts = isText ? read(plainOf(value)) : noParts;
      return [...parts].map(([part, text]) => [`${source.names[0]}__${part}`, text] as const);
    });
    if (added.length === 0) return row;
    return editColumn(row, column === '*' ? 'properties' : column, (holder) => holder.with(added));
  };
}
