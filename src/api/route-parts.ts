import { type TProperties, Type } from 'typebox';
import type { Family } from './families.ts';

/** Access of the routes on batch exports. */
export const readExports = { scope: 'batch_export:read' } as const;
export const writeExports = { scope: 'batch_export:write' } as const;

/** Access of the routes on transformation configs and plugins. */
export const readPlugins = { scope: 'plugin:read' } as const;
export const writePlugins = { scope: 'plugin:write' } as const;

const descriptions: Record<string, string> = {
  id: 'Identifier of the record.',
  batch_export_id: 'Identifier of the batch export.',
  run_id: 'Identifier of the run.',
};

/** The parts that every operation of a family describes in the same way. */
export function describe(family: Family) {
  return {
    about: (operation: string, summary: string) => ({
      tags: [family.tag],
      operationId: family.operation(operation),
      summary,
    }),
    /** Path parameters: those of the prefix, and these, all UUIDs. */
    params: (...names: readonly string[]) => {
      const properties: TProperties = { ...family.params };
      for (const name of names) {
        properties[name] = Type.String({ format: 'uuid', description: descriptions[name] ?? '' });
      }
      return Type.Object(properties);
    },
  };
}
