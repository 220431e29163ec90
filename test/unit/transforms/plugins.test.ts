import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkPluginConfig, withDefaults } from '../../../src/foundation/domain/plugin.ts';
import { findTransform, transforms } from '../../../src/rows/transforms/index.ts';
import {
  type Json,
  type JsonObject,
  jsonNull,
  listOf,
  objectOf,
  stringOf,
  trustJson,
} from '../../../src/rows/transforms/json.ts';
import type { Transform } from '../../../src/rows/transforms/transform.ts';
import { canonical, chainFor, rowOfText, stepOfPlugin } from '../../support/transforms/rows.ts';

const room = path.resolve(import.meta.dirname, '../../../src/rows/transforms');
/** What the README of the steps says of each, by its name. */
const sections = new Map(
  readFileSync(path.join(room, 'steps/README.md'), 'utf8')
    .split(/^## /m)
    .slice(1)
    .map((text) => [text.split('\n', 1)[0] ?? '', text.trim().split('\n')]),
);

interface Example {
  readonly shows: string;
  readonly config: Readonly<Record<string, string>>;
  readonly before: JsonObject;
  /** Null: dropped. */
  readonly after: Json | undefined;
  readonly error: string | null;
}

interface Plugin {
  readonly name: string;
  readonly transform: Transform;
  readonly examples: readonly Example[];
}

/** Read without JSON.parse: an example may hold numbers that it would round. */
function readExamples(name: string): Example[] {
  const file = path.join(
    import.meta.dirname,
    'examples',
    `${name.toLowerCase().replaceAll(' ', '-')}.json`,
  );
  const list = existsSync(file) ? listOf(trustJson(readFileSync(file, 'utf8'))) : [];
  return (list ?? []).map((element) => {
    const example = objectOf(element);
    const before = objectOf(example?.get('before'));
    if (!example || !before) throw new Error(`${name}: an example has a row before.`);
    return {
      shows: stringOf(example.get('shows')) ?? '',
      config: JSON.parse(objectOf(example.get('config'))?.text ?? '') as Record<string, string>,
      before: rowOfText(before.text),
      after: example.get('after'),
      error: stringOf(example.get('error')),
    };
  });
}

const plugins = transforms.map((transform): Plugin => {
  return { name: transform.name, transform, examples: readExamples(transform.name) };
});

describe.each(plugins)('the plugin $name', ({ name, transform, examples }) => {
  test('is in the registry', () => {
    expect(findTransform(transform.id)).toBe(transform);
  });

  test('has about ten lines in the README, under its name', () => {
    const lines = sections.get(name) ?? [];
    expect(lines.length).toBeGreaterThan(5);
    expect(lines.length).toBeLessThan(15);
    expect(lines.filter((line) => line.length > 160)).toEqual([]);
  });

  test('says there what each of its own settings does', () => {
    const text = sections.get(name)?.join('\n') ?? '';
    const own = transform.configSchema
      .map(({ key }) => key)
      .filter((key) => !['on_error', 'max_error_share', 'properties'].includes(key));
    expect(own.filter((key) => !text.includes(key))).toEqual([]);
  });

  test('has examples, and each says what it shows', () => {
    expect(examples.length).toBeGreaterThan(1);
    expect(examples.filter(({ shows }) => !shows)).toEqual([]);
    expect(new Set(examples.map(({ shows }) => shows)).size).toBe(examples.length);
  });

  test.each(examples)('$shows', ({ config, before, after, error }) => {
    const complete = { ...exampleSecrets(transform), ...config };
    expect(checkPluginConfig(transform.configSchema, complete)).toEqual([]);
    const given = before.text;
    const chain = chainFor(before, [stepOfPlugin(transform, complete)]);
    const outcome = chain.apply(before);
    expect(chain.steps[0]?.errors.map(({ reason }) => reason)).toEqual(error ? [error] : []);
    if (error) {
      expect(outcome.kind).toBe(transform.protects ? 'rejected' : 'kept');
      if (outcome.kind === 'kept') expect(outcome.row).toBe(before);
    } else {
      const result = outcome.kind === 'kept' ? canonical(outcome.row) : null;
      expect(result).toBe(after === jsonNull ? null : canonical(after ?? jsonNull));
    }
    expect(before.text).toBe(given);
  });
});

function exampleSecrets(transform: Transform): Record<string, string> {
  const secrets = transform.configSchema.filter(({ secret }) => secret);
  return Object.fromEntries(secrets.map(({ key }) => [key, 'secret']));
}

describe('the registry', () => {
  test('has every plugin of the README, and no other', () => {
    expect(transforms.map(({ name }) => name).toSorted()).toEqual([...sections.keys()].toSorted());
    expect(transforms.length).toBeGreaterThan(18);
  });

  test('gives each plugin an id of its own below 1000, and a name of its own', () => {
    expect(new Set(transforms.map(({ id }) => id)).size).toBe(transforms.length);
    expect(new Set(transforms.map(({ name }) => name)).size).toBe(transforms.length);
    expect(transforms.filter(({ id }) => id < 1 || id >= 1000)).toEqual([]);
  });

  test('keeps the plugins that the catalogue has had from the start', () => {
    const first = [
      [1, 'Drop properties', ['properties']],
      [2, 'Filter events', ['events', 'mode']],
      [3, 'Hash properties', ['properties', 'salt']],
      [4, 'Rename properties', ['names']],
      [5, 'Flatten properties', ['separator']],
    ] as const;
    for (const [id, name, keys] of first) {
      const transform = findTransform(id);
      expect(transform?.name).toBe(name);
      const schema = transform?.configSchema ?? [];
      expect(schema.map(({ key }) => key)).toEqual(expect.arrayContaining([...keys]));
      const added = schema.filter(({ key }) => !(keys as readonly string[]).includes(key));
      expect(added.filter(({ required }) => required)).toEqual([]);
    }
  });

  test('lets a step keep rows with errors only if it protects nothing', () => {
    for (const { protects, configSchema } of transforms) {
      expect(configSchema.some(({ key }) => key === 'on_error')).toBe(!protects);
      expect(configSchema.some(({ key }) => key === 'max_error_share')).toBe(true);
    }
    const hiding = ['Hash', 'Mask', 'Anonymise', 'Strip'];
    expect(transforms.filter((t) => t.protects).map(({ name }) => name.split(' ')[0])).toEqual(
      hiding,
    );
  });

  test('describes settings that have a choice with a default', () => {
    const choices = transforms
      .flatMap(({ configSchema }) => configSchema)
      .filter(({ type }) => type === 'choice');
    expect(choices.filter((field) => !field.choices.includes(field.default ?? ''))).toEqual([]);
  });

  test('compiles each plugin again to the same', () => {
    for (const { transform, examples } of plugins) {
      for (const { config, before, error } of examples.filter((example) => !example.error)) {
        expect(error).toBeNull();
        const complete = withDefaults(transform.configSchema, {
          ...exampleSecrets(transform),
          ...config,
        });
        const [first, second] = [transform.compile(complete), transform.compile(complete)];
        expect(first(before)?.text).toBe(second(before)?.text);
      }
    }
  });
});
