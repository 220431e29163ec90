import { expect, test } from 'vitest';
import {
  fieldsOf,
  isFirst,
  type PropertySchema,
} from '../../../src/clients/console/form/fields.ts';
import { describeNow, inPlainWords } from '../../../src/clients/console/form/setting-words.ts';
import { exportSettings } from '../../../src/foundation/domain/export-settings.ts';
import { withFileSettings } from '../../../src/rows/destinations/file-config.ts';
import { s3Definition } from '../../../src/rows/destinations/s3/definition.ts';
import { encoders } from '../../../src/rows/encoders/index.ts';

const { configSchema } = withFileSettings(s3Definition, encoders);
const fields = fieldsOf(configSchema as unknown as PropertySchema);
const settings = Object.values(exportSettings).map(({ field, description, ...setting }) => {
  const [one] = fieldsOf({ properties: { [field]: { type: setting.type, description } } });
  return { ...one, default: setting.default } as (typeof fields)[number];
});

test.each([...fields, ...settings].map((field) => [field.name, field] as const))(
  '%s has one line of help in plain words, and says what it is now',
  (_, field) => {
    const { description, kind, default: preset } = inPlainWords(field);
    expect(description.length).toBeLessThanOrEqual(100);
    expect(description).not.toMatch(/\bnull\b|`|[a-z]_[a-z]|high-water/i);
    if (isFirst(field) || kind === 'choice') return;
    const value = kind === 'flag' ? preset === true : String(preset ?? '');
    const now = describeNow(field, value);
    if (value === '') expect(now).not.toBeNull();
    if (kind === 'flag') expect(now).toMatch(/^(yes|no)$/);
  },
);
