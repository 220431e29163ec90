import type { PluginConfig } from '../../foundation/domain/plugin.ts';
import { type JsonText, kindOf, plainOf } from './json.ts';
import { editColumn, propertiesOf } from './properties.ts';
import { requireNames } from './settings.ts';
import type { Apply } from './transform.ts';

/** What is read out of a text, by name: `host`, `path`. */
export type Parts = ReadonlyMap<string, JsonText>;

const noParts: Parts = new Map();

/**
 * A step that reads properties and adds what it finds beside them: `url` gives `url__host`. What
 * it reads out of a column goes into `properties`.
 *
 * @param read gives no parts for a text that has none, and nothing is added
 */
export function addParts(config: PluginConfig, read: (text: string) => Parts): Apply {
  const column = config.column ?? 'properties';
  const sources = requireNames(config, 'properties').map((name) => propertiesOf([name], column));
  return (row) => {
    const found = sources.flatMap((source) => {
      const [value] = source.read(row);
      const isText = value !== undefined && ['string', 'number'].includes(kindOf(value));
      const parts = isText ? read(plainOf(value)) : noParts;
      return [...parts].map(([part, text]) => [`${source.names[0]}__${part}`, text] as const);
    });
    if (found.length === 0) return row;
    return editColumn(row, column === '*' ? 'properties' : column, (holder) => holder.with(found));
  };
}
