import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { problemsOf } from '../../../src/service/api/validation/problem-of.ts';
import { createAjv } from '../../../src/service/api/validation/validator.ts';
import { encoders } from '../../../src/rows/encoders/index.ts';
import { withFileSettings } from '../../../src/rows/destinations/file-config.ts';
import { noOpDefinition } from '../../../src/rows/destinations/no-op/definition.ts';

const config = withFileSettings(noOpDefinition, encoders).configSchema;

function detailOf(schema: object, value: unknown): string | undefined {
  const validate = createAjv().compile(schema);
  return validate(value) ? undefined : problemsOf(validate.errors ?? [], value)[0]?.detail;
}

test.each([
  [{ max_file_size_mb: -1 }, 'Must be from 0 to 5000000.'],
  [{ max_file_size_mb: 5_000_001 }, 'Must be from 0 to 5000000.'],
  [{ max_file_size_mb: 1.5 }, 'Expected an integer from 0 to 5000000.'],
  [{ max_file_size_mb: '5' }, 'Expected an integer from 0 to 5000000.'],
  [{ infinity: 'drop' }, 'Must be one of reject, null, limit.'],
  [{ on_rejected: 'skip' }, 'Must be one of warn, fail.'],
  [{ csv_arrays: 'pg' }, 'Must be one of json, postgres.'],
  [{ json_null: true }, 'Must be one of keep, null.'],
  [{ compression: 'zip' }, 'Must be one of gzip, brotli, zstd, snappy, lz4.'],
  [{ replace_invalid_unicode: 'yes' }, 'Expected a boolean.'],
])('%s is refused with the rule: %s', (value, detail) => {
  expect(detailOf(config, value)).toBe(detail);
});

test('a bound alone, and a list that is too short, are named too', () => {
  expect(detailOf(Type.Integer({ minimum: 3 }), 2)).toBe('Must be at least 3.');
  expect(detailOf(Type.Integer({ maximum: 3 }), 4)).toBe('Must be at most 3.');
  expect(detailOf(Type.Array(Type.String(), { minItems: 1 }), [])).toBe('Must have at least 1.');
});
