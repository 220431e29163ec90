import { createHmac } from 'node:crypto';
import type { PluginConfig } from '../../../foundation/domain/plugin.ts';
import { type Json, jsonNull, listOf, plainOf, toJson } from '../json.ts';
import { chooseProperties } from '../properties.ts';
import { anyColumnField, propertiesField } from '../settings.ts';
import { defineTransform, field, InvalidSetting, readAll } from '../transform.ts';

export const hashProperties = defineTransform({
  id: 3,
  name: 'Hash properties',
  description: 'Replaces personal properties with a keyed hash.',
  protects: true,
  fields: [
    propertiesField,
    field({
      key: 'salt',
      name: 'Salt',
      required: true,
      secret: true,
      hint: 'Do not change it: another salt gives other hashes.',
    }),
    anyColumnField,
  ],
  compile(config) {
    const { properties, salt } = readAll({
      properties: () => chooseProperties(config),
      salt: () => requireSalt(config),
    });
    const hash = (value: Json): Json =>
      value === jsonNull
        ? value
        : toJson(createHmac('sha256', salt).update(plainOf(value)).digest('hex'));
    return (row) => properties.update(row, (value) => listOf(value)?.map(hash) ?? hash(value));
  },
});

/** Also for a stored config: an empty key would make hashes that anyone can make. */
function requireSalt({ salt }: PluginConfig): string {
  if (!salt) throw new InvalidSetting('salt', 'Write a secret text, and keep it the same.');
  return salt;
}
