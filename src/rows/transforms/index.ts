import { anonymiseIps } from './anonymise-ips/definition.ts';
import { castProperties } from './cast-properties/definition.ts';
import { changeCase } from './change-case/definition.ts';
import { dropProperties } from './drop-properties/definition.ts';
import { filterEvents } from './filter-events/definition.ts';
import { filterRows } from './filter-rows/definition.ts';
import { flattenProperties } from './flatten-properties/definition.ts';
import { hashProperties } from './hash-properties/definition.ts';
import { keepProperties } from './keep-properties/definition.ts';
import { maskProperties } from './mask-properties/definition.ts';
import { parseTimestamps } from './parse-timestamps/definition.ts';
import { parseUrls } from './parse-urls/definition.ts';
import { parseUserAgents } from './parse-user-agents/definition.ts';
import { parseVersions } from './parse-versions/definition.ts';
import { renameProperties } from './rename-properties/definition.ts';
import { sampleRows } from './sample-rows/definition.ts';
import { setProperties } from './set-properties/definition.ts';
import { stripUrls } from './strip-urls/definition.ts';
import type { Transform } from './transform.ts';
import { truncateValues } from './truncate-values/definition.ts';

/** Plugins of every installation, by their ids, all below 1000. An id is never given to another plugin. */
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

/** The built-in plugin of an id, or null. */
export function findTransform(id: number): Transform | null {
  return transforms.find((transform) => transform.id === id) ?? null;
}
