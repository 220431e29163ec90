import { describe, expect, it } from 'vitest';
import {
  checkKeyTemplate,
  describeForeignForms,
  isoSeconds,
  keyVariables,
  literalFolder,
  maxPrefixBytes,
  renderKeyTemplate,
} from '../../../src/foundation/domain/key-template.ts';

const values = {
  // A year's last hour, so that start and end differ in every field but minute and second.
  interval: { start: Date.UTC(2023, 11, 31, 23, 4, 5), end: Date.UTC(2024, 0, 1, 0, 6, 7) },
  table: 'events',
  batchExportId: '018e0f2a-0000-7000-8000-00000000abcd',
};

describe('rendering a key template', () => {
  it.each([
    ['{year}/{month}/{day}/{hour}/{minute}/{second}', '2024/01/01/00/06/07'],
    ['{start:year}/{start:month}/{start:day}/{start:hour}', '2023/12/31/23'],
    ['{start:minute}-{start:second}', '04-05'],
    ['{table}/{batch_export_id}', 'events/018e0f2a-0000-7000-8000-00000000abcd'],
    ['{data_interval_start}_{data_interval_end}', '2023-12-31T23:04:05Z_2024-01-01T00:06:07Z'],
    ['', ''],
    ['plain', 'plain'],
    ['été/数据', 'été/数据'],
  ])('fills %j', (template, expected) => {
    expect(checkKeyTemplate(template)).toEqual([]);
    expect(renderKeyTemplate(template, values)).toBe(expected);
  });

  it.each([
    ['/a/b/', 'a/b'],
    ['//a///b', 'a/b'],
    ['/', ''],
    ['///', ''],
  ])('treats the slashes of %j as separators only', (template, expected) => {
    expect(checkKeyTemplate(template)).toEqual([]);
    expect(renderKeyTemplate(template, values)).toBe(expected);
  });

  it('refuses to render what it would not accept', () => {
    expect(() => renderKeyTemplate('{nope}', values)).toThrow(RangeError);
    expect(() => renderKeyTemplate('{table}', { ...values, table: '../secret' })).toThrow(
      RangeError,
    );
  });
});

describe('checking a key template', () => {
  it.each([
    ['{unknown}', /Unknown variable \{unknown\}.*\{?year/],
    ['{}', /Unknown variable \{\}/],
    ['{start:table}', /Unknown variable/],
    ['{year', /Unmatched brace \{/],
    ['year}', /Unmatched brace \}/],
    ['{{year}}', /^\{\{year\}\} has two braces\. Write one, such as \{year\}\.$/],
    ['{{ ds }}', /^\{\{ ds \}\} has two braces/],
    ['a/../b', /\.\./],
    ['a/./b', /single dot/],
    ['a\nb', /control characters/],
    ['a\u0000b', /control characters/],
    ['a\ud800b', /control characters/],
    ['a'.repeat(maxPrefixBytes + 1), /900 bytes/],
    ['é'.repeat(451), /900 bytes/],
    [`${'a'.repeat(840)}{table}`, /900 bytes/],
  ])('finds the fault of %j', (template, problem) => {
    const problems = checkKeyTemplate(template);
    expect(problems).toHaveLength(1);
    expect(problems.join(' ')).toMatch(problem);
  });

  it('names every fault, not the first', () => {
    expect(checkKeyTemplate('../{x}/{y}\t')).toHaveLength(4);
  });

  it('accepts values at the limits', () => {
    expect(checkKeyTemplate('a'.repeat(maxPrefixBytes))).toEqual([]);
    expect(checkKeyTemplate(`${'a'.repeat(maxPrefixBytes - 63)}{table}`)).toEqual([]);
  });

  it('knows each variable that the contract lists', () => {
    expect([...keyVariables].sort()).toEqual(
      [
        ...['year', 'month', 'day', 'hour', 'minute', 'second'].flatMap((n) => [n, `start:${n}`]),
        'table',
        'data_interval_start',
        'data_interval_end',
        'batch_export_id',
      ].sort(),
    );
  });
});

it.each([
  ['a/b/{year}/c', 'a/b'],
  ['a/b-{year}', 'a'],
  ['{year}/a', ''],
  ['/a/b', 'a/b'],
  ['', ''],
  ['x{year}', ''],
])('the folder that holds no variable of %j is %j', (template, expected) => {
  expect(literalFolder(template)).toBe(expected);
});

it('a bound in a key is never rounded to another second', () => {
  expect(isoSeconds(0)).toBe('1970-01-01T00:00:00Z');
  expect(() => isoSeconds(1)).toThrow(RangeError);
  expect(() => isoSeconds(Date.UTC(10_000, 0, 1))).toThrow(RangeError);
});

describe('what another program would fill in', () => {
  it.each([
    ['s3://acme/a', 's3:// is taken for a folder'],
    ['arn:aws:s3:::acme/a', 'arn: is taken for a folder'],
    ['a/%Y/%m', '%Y is not filled in.*{year}, {month}'],
    ['a/%(ds)s/', '%(ds)s is not filled in'],
    ['a/<year>/', '<year> is not filled in'],
    ['a/\u0024{year}', '\u0024{year} is not filled in'],
    ['a/$(date)/', '$(date) is not filled in'],
    ['a/yyyy/MM', 'yyyy is not filled in'],
    ['a/dt=YYYYMMDD/', 'YYYY is not filled in'],
    ['a\\b', 'begins no folder'],
  ])('in %s is named', (template, says) => {
    const form = new RegExp(says.replace(/[$(){}]/g, '\\$&'));
    expect(describeForeignForms(template).join()).toMatch(form);
  });

  it.each(['', 'a/{year}/{start:month}', 'team:a/50%/x'])('is not in %j', (template) => {
    expect(describeForeignForms(template)).toEqual([]);
  });
});
