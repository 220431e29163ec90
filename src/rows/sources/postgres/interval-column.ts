import type { Column } from '../../../foundation/domain/row-block.ts';

export function describeIntervalColumn({
  name,
  type,
  sourceType,
}: Pick<Column, 'name' | 'type' | 'sourceType'>): string | null {
  const effect = effects[type];
  if (effect === undefined) return null;
  return `${name} is ${sourceType}, not timestamp with time zone. ${effect}.`;
}

const effects: Partial<Record<Column['type'], string>> = {
  date: 'Sluice reads it as midnight in UTC, so an interval must end at midnight in UTC: otherwise rows of a day that arrive after its first interval would be lost, and such runs are refused',
  timestamp:
    'Sluice reads it as UTC, so rows of sessions in another time zone are in another interval, and may be lost',
};
