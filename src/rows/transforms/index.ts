import { anonymiseIps, hashProperties, maskProperties, stripUrls } from './steps/personal.ts';
import { castProperties, changeCase, truncateValues } from './steps/values.ts';
import {
  dropProperties,
  flattenProperties,
  keepProperties,
  renameProperties,
  setProperties,
} from './steps/properties.ts';
import { filterEvents, filterRows, sampleRows } from './steps/rows.ts';
import { parseTimestamps, parseUrls, parseUserAgents, parseVersions } from './steps/parts.ts';
import type { Transform } from './transform.ts';

/** Their ids are below 1000 and never given to another plugin. */
export const transforms: readonly Transform[] = [
  dropProperties,
  filterEvents,
  hashProperties,
  renameProperties,
  flattenProperties,
  filterRows,
  keepProperties,
  setProperties,
  castProperties,
  maskProperties,
  anonymiseIps,
  stripUrls,
  parseUrls,
  parseTimestamps,
  parseUserAgents,
  parseVersions,
  changeCase,
  truncateValues,
  sampleRows,
];

export function findTransform(id: number): Transform | null {
  return transforms.find((transform) => transform.id === id) ?? null;
}
