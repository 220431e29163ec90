import type { Model, ModelColumn } from './model.ts';

const plain = (name: string, sourceType: string): ModelColumn => ({
  name,
  expression: null,
  sourceType,
  json: sourceType === 'jsonb',
});

/** The built-in model. An installation with a models file offers it only if its source has the table. */
export const eventsModel: Model = {
  name: 'events',
  relation: { schema: 'public', name: 'events' },
  tenantColumn: 'team_id',
  intervalColumn: 'inserted_at',
  keyColumns: ['uuid'],
  eventColumn: 'event',
  columns: [
    plain('uuid', 'uuid'),
    plain('event', 'text'),
    plain('properties', 'jsonb'),
    plain('distinct_id', 'text'),
    plain('person_id', 'uuid'),
    plain('person_properties', 'jsonb'),
    plain('elements_chain', 'text'),
    plain('timestamp', 'timestamp with time zone'),
    plain('created_at', 'timestamp with time zone'),
    plain('inserted_at', 'timestamp with time zone'),
  ],
};

/** The model of an export that names none: `events`, or the only one there is. Null: the export must name one. */
export function defaultModelOf(models: readonly string[]): string | null {
  if (models.includes(eventsModel.name)) return eventsModel.name;
  return models.length === 1 ? (models[0] ?? null) : null;
}
