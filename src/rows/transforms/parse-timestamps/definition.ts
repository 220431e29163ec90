import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { addParts, type Parts, readSources } from '../derived-properties.ts';
import { toJson } from '../json.ts';
import { anyColumnField, propertiesField } from '../settings.ts';
import { defineTransform } from '../transform.ts';

export const parseTimestamps = defineTransform({
  id: 14,
  name: 'Parse timestamps',
  description:
    'Adds year, month, day, hour, minute and weekday of timestamps as properties, in UTC.',
  protects: false,
  fields: [propertiesField, anyColumnField],
  compile: (config) => addParts(readSources(config), partsOf),
});

const noParts: Parts = new Map();
const dayMs = 86_400_000;

function partsOf(text: string): Parts {
  const timestamp = parseTime(text)?.timestamp;
  if (timestamp === undefined) return noParts;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0] = timestamp.split(/[-T:]/).map(Number);
  // 1970 began on a Thursday. 1 is Monday, as in ISO 8601.
  const days = Math.floor(Date.parse(timestamp) / dayMs);
  const weekday = ((((days + 3) % 7) + 7) % 7) + 1;
  return new Map(
    Object.entries({ year, month, day, hour, minute, weekday }).map(([part, value]) => [
      part,
      toJson(value),
    ]),
  );
}
