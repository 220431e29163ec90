import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/foundation/config/config.ts';
import { parseModelsFile, readModelsFile } from '../../../src/foundation/config/models-file.ts';
import { parseQuery } from '../../../src/rows/query/parse-query.ts';
import { checkModelExpression } from '../../../src/rows/query/selection.ts';
import { folderOfTest } from '../../support/own-folder.ts';

const options = {
  checkExpression: checkModelExpression,
  env: {
    SHOP_DATABASE_URL: 'postgres://reader@shop/shop',
    NOT_AN_ADDRESS: 'shop:5432',
    ABSENT_URL_FILE: '/no/such',
  },
};
const parse = (text: string) => parseModelsFile(text, 'models.yaml', options);

/** A good file, with one change. */
const orders = (change: (text: string) => string = (text) => text) =>
  change(`models:
  - name: orders
    relation: shop.orders
    tenant_column: team_id
    interval_column: updated_at
    key_columns: [id]
    source: SHOP_DATABASE_URL
    columns:
      - { name: id, type: bigint }
      - { name: updated_at, type: timestamptz }
      - { name: gross, type: numeric, expression: net * 1.19 }
`);

function faultsOf(text: string): readonly string[] {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}

describe('a models file', () => {
  it('says how far back late rows are looked for', () => {
    const [found] = parse(
      orders((text) => text.replace('    source', '    look_back_hours: 48\n    source')),
    );
    expect(found?.model.lookBackHours).toBe(48);
  });

  it('becomes the models of the domain', () => {
    expect(parse(orders())).toEqual([
      {
        sourceUrl: 'postgres://reader@shop/shop',
        primaryUrl: null,
        sourceName: 'SHOP_DATABASE_URL',
        primaryName: undefined,
        model: {
          name: 'orders',
          relation: { schema: 'shop', name: 'orders' },
          tenantColumn: 'team_id',
          intervalColumn: 'updated_at',
          keyColumns: ['id'],
          eventColumn: null,
          rowSecurity: null,
          onSchemaChange: 'fail',
          lookBackHours: null,
          changes: null,
          columns: [
            { name: 'id', expression: null, sourceType: 'bigint', json: false },
            {
              name: 'updated_at',
              expression: null,
              sourceType: 'timestamp with time zone',
              json: false,
            },
            { name: 'gross', expression: 'net * 1.19', sourceType: 'numeric', json: false },
          ],
        },
      },
    ]);
  });

  it('keeps names as they are spelled, with a dot in quotes', () => {
    const [found] = parse(
      orders((text) => text.replace('shop.orders', `'"my.shop"."Or""der"'`)).replace(
        'source: SHOP_DATABASE_URL',
        '',
      ),
    );
    expect(found?.model.relation).toEqual({ schema: 'my.shop', name: 'Or"der' });
    expect(found?.sourceUrl).toBeNull();
  });
});

it('the example of the documentation is good, and so is its query', () => {
  const page = readFileSync(new URL('../../../docs/models.md', import.meta.url), 'utf8');
  const [, example = ''] = /```yaml\n(.*?)```/s.exec(page) ?? [];
  const [, query = ''] = /`(SELECT .*?)`/.exec(page) ?? [];
  const env = { USERS_DATABASE_URL: 'postgresql://users' };
  const models = parseModelsFile(example, 'models.yaml', { ...options, env });
  expect(models.map(({ model, sourceUrl }) => [model.name, sourceUrl])).toEqual([
    ['orders', null],
    ['sign_ins', 'postgresql://users'],
  ]);
  const [orders] = models;
  expect(orders && parseQuery(query, orders.model)).toHaveProperty('ok');
});

it('names what exports of changes lack in a model', () => {
  const faults = (...lines: readonly string[]) =>
    faultsOf(
      orders((text) =>
        text.replace('    source', `${lines.map((line) => `    ${line}\n`).join('')}    source`),
      ),
    );
  expect(faults('version_column: version', 'deletes: column', 'delete_column: gone')).toEqual([]);
  expect(faults('version_column: version', 'deletes: column')).toEqual([
    expect.stringContaining('models[0].deletes is column, which needs delete_column.'),
  ]);
  expect(faults('version_column: version', 'tombstone_days: 3')).toEqual([
    expect.stringContaining('models[0].tombstone_days is only for `deletes: tombstones`.'),
  ]);
  expect(faults('version_column: version', 'deletes: compare', 'compare_every: 12')).toEqual([]);
  expect(faults('version_column: version', 'compare_every: 12')).toEqual([
    expect.stringContaining('models[0].compare_every is only for `deletes: compare`.'),
  ]);
  expect(faults('version_column: version', 'deletes: compare', 'compare_every: 0')).toHaveLength(1);
  expect(faults('version_set_by: client')).toEqual([
    expect.stringContaining('models[0].version_set_by needs version_column.'),
  ]);
  const taken = orders((text) =>
    text
      .replace('    source', '    version_column: version\n    source')
      .replace('name: gross', 'name: _sluice_op'),
  );
  expect(faultsOf(taken)).toEqual([expect.stringContaining('Choose another name.')]);
});

describe('a fault of the file', () => {
  it.each([
    [
      'tenant_column: team_id',
      '',
      /^models.yaml:2 models\[0\]\.tenant_column is missing\. Column with /,
    ],
    [
      'key_columns: [id]',
      'key_columns: id',
      /^models.yaml:6 models\[0\]\.key_columns must be a list/,
    ],
    ['[id]', '[]', /^models.yaml:6 models\[0\]\.key_columns is empty\. List of the columns /],
    ['[id]', '[id, id]', /^models.yaml:6 models\[0\]\.key_columns has an item twice/],
    ['name: orders', 'name: Orders', /^models.yaml:2 models\[0\]\.name "Orders" is not valid\. /],
    ['shop.orders', 'orders', /^models.yaml:3 models\[0\]\.relation "orders" is not valid\. `sch/],
    [
      'type: bigint',
      'typ: bigint, type: int8',
      /^models.yaml:9 models\[0\]\.columns\[0\]\.typ is unknown\. Use one of: name, type, expres/,
    ],
    ['name: id,', 'name: 7,', /^models.yaml:9 models\[0\]\.columns\[0\]\.name must be text\. /],
    [
      'name: updated_at',
      'name: id',
      /^models.yaml:10 models\[0\]\.columns\[1\]\.name repeats "id"/,
    ],
    [
      'net * 1.19',
      '(SELECT max(net) FROM shop.orders)',
      /^models.yaml:11 models\[0\]\.columns\[2\]\.expression is not one expression without a subq/,
    ],
    ['net * 1.19', 'net *', /^models.yaml:11 .*expression syntax error.*: write one SQL expr/],
    [
      'SHOP_DATABASE_URL',
      'MISSING_URL',
      /^models.yaml:7 models\[0\]\.source names MISSING_URL, which is not set/,
    ],
    [
      'SHOP_DATABASE_URL',
      'NOT_AN_ADDRESS',
      /source names NOT_AN_ADDRESS, which is not a postgres:\/\/ add/,
    ],
    [
      'source: SHOP',
      'look_back_hours: 721\n    source: SHOP',
      /^models.yaml:7 models\[0\]\.look_back_hours 721 is not valid\. Hours .* from 0 to 720/,
    ],
    [
      'SHOP_DATABASE_URL',
      'ABSENT_URL',
      /source names ABSENT_URL: ABSENT_URL cannot be read: ABSENT_URL_FILE names \/no\/such \(ENOENT\): corr/,
    ],
    ['relation: shop', 'relation: [shop', /^models.yaml:\d+ is not valid YAML: /],
    ['models:\n', 'modles:\n', /^models.yaml:1 models is missing\. List of the models/],
  ])('names line, path, problem and remedy: %s → %s', (from, to, expected) => {
    const faults = faultsOf(orders((text) => text.replace(from, to)));
    expect(faults[0]).toMatch(expected);
  });

  it('is reported together with all others, in the order of the file', () => {
    const text = `${orders((good) => good.replace('team_id', '[]').replace('type: numeric, ', ''))}
  - name: orders
    relation: shop.lines
    tenant_column: t
    interval_column: i
    key_columns: [a]
    columns: [{ name: a, type: int, expression: ')' }]
  - name: orders
    relation: shop.lines
    tenant_column: t
    interval_column: i
    key_columns: [a]
    columns: [{ name: a, type: int }]
`;
    expect(faultsOf(text).map((fault) => fault.split(' ').slice(0, 2).join(' '))).toEqual([
      'models.yaml:4 models[0].tenant_column',
      'models.yaml:11 models[0].columns[2].type',
      'models.yaml:18 models[1].columns[0].expression',
      'models.yaml:19 models[2].name',
    ]);
  });

  it.each(['', '[]', 'models: []', 'models: [5]', 'text'])('is found in a file of %j', (text) => {
    expect(faultsOf(text)[0]).toMatch(/^models\.yaml:1 .+\. .+/);
  });

  it('is reported with the file and the variable if the file is missing', () => {
    expect(() => readModelsFile('/nowhere/models.yaml', options)).toThrow(
      /MODELS_FILE names \/nowhere\/models\.yaml, which cannot be read \(ENOENT/,
    );
  });
});

it('takes the address of a source from a file', () => {
  const file = join(folderOfTest(), 'url');
  writeFileSync(file, 'postgres://reader@shop/shop\n');
  const env = { SHOP_DATABASE_URL_FILE: file };
  const [sourced] = parseModelsFile(orders(), 'models.yaml', { ...options, env });
  expect(sourced?.sourceUrl).toBe('postgres://reader@shop/shop');
});
