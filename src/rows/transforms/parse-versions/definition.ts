import { addParts, type Parts, readSources } from '../derived-properties.ts';
import { type JsonText, toJson } from '../json.ts';
import { anyColumnField, propertiesField } from '../settings.ts';
import { defineTransform } from '../transform.ts';

export const parseVersions = defineTransform({
  id: 16,
  name: 'Parse versions',
  description:
    'Adds major, minor, patch, pre-release and build of semantic versions as properties.',
  protects: false,
  fields: [propertiesField, anyColumnField],
  compile: (config) => addParts(readSources(config), partsOf),
});

const number = '(0|[1-9]\\d{0,15})';
const labels = '([0-9A-Za-z.-]+)';
const version = new RegExp(
  `^v?${number}(?:\\.${number}(?:\\.${number})?)?(?:-${labels})?(?:\\+${labels})?$`,
);
const names = ['major', 'minor', 'patch'];

function partsOf(text: string): Parts {
  const parts = new Map<string, JsonText>();
  const [, major, minor, patch, preRelease, build] = version.exec(text.trim()) ?? [];
  for (const [index, digits] of [major, minor, patch].entries()) {
    if (digits !== undefined) parts.set(names[index] ?? '', digits as JsonText);
  }
  if (preRelease !== undefined) parts.set('pre_release', toJson(preRelease));
  if (build !== undefined) parts.set('build', toJson(build));
  return parts;
}
