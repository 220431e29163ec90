import { describe, expect, it, test } from 'vitest';
import { fileDefinition } from '../../../src/rows/destinations/file/definition.ts';
import { s3Definition } from '../../../src/rows/destinations/s3/definition.ts';
import { contextWith } from '../../conformance/destination-suite.ts';

const placeOf = (config: Readonly<Record<string, unknown>>) =>
  s3Definition.place({ bucket_name: 'b', region: 'eu-central-1', ...config });
const at = (endpoint_url: string | null) => placeOf({ endpoint_url });

describe('the place of an S3 destination', () => {
  it.each([
    ['http://x', 'http://x/'],
    ['http://x', 'HTTP://X:80'],
    ['https://x:443/store/', 'https://x/store'],
    [null, 'https://s3.amazonaws.com'],
    [null, 'https://s3.eu-central-1.amazonaws.com/'],
    [null, 'https://s3-eu-central-1.amazonaws.com'],
  ])('is the same at %s and %s', (one, other) => expect(at(one)).toBe(at(other)));

  it.each([
    ['http://x', 'https://x'],
    ['http://x', 'http://x:9000'],
    ['http://x/a', 'http://x/b'],
    [null, 'https://s3.example.com'],
    [null, 'https://s3.amazonaws.com.example.com'],
  ])('differs between %s and %s', (one, other) => expect(at(one)).not.toBe(at(other)));

  it('is the bucket at AWS, whatever the region, but not in another partition', () => {
    expect(placeOf({ region: 'us-east-1' })).toBe(placeOf({}));
    expect(placeOf({ region: 'cn-north-1' })).not.toBe(placeOf({}));
    expect(placeOf({ region: 'us-gov-west-1' })).not.toBe(placeOf({}));
  });

  it('does not depend on the prefix or on an endpoint that is left out', () => {
    expect(placeOf({ prefix: 'p' })).toBe(placeOf({ prefix: 'p/', endpoint_url: null }));
  });
});

describe('a config of S3', () => {
  const keys = { aws_access_key_id: 'AKIA', aws_secret_access_key: 's' };
  const validate = (config: Readonly<Record<string, unknown>>) =>
    s3Definition
      .validate(
        { region: 'eu-central-1', bucket_name: 'acme', ...keys, ...config },
        contextWith({}),
      )
      .map(({ attr, detail }) => `${attr}: ${detail}`)
      .join('\n');
  const named = (bucket_name: string, endpoint_url: string | null = null) =>
    validate({ bucket_name, endpoint_url });
  const elsewhere = 'https://s3.example.com';

  it.each([
    ['arn:aws:s3:::acme/daily', 'ARN of a bucket. Set bucket_name to acme and prefix to daily/.'],
    ['arn:aws:s3:::acme/*', 'Set bucket_name to acme.$'],
    ['arn:aws:s3:::acme*', 'Set bucket_name to acme.$'],
    ['team-123456789012.s3-accesspoint.eu-west-1.amazonaws.com', 'access point.* -s3alias'],
    ['mfzwi23gnjvgw.mrap.accesspoint.s3-global.amazonaws.com', 'multi-region'],
    ['arn:aws:s3:eu-west-1:123456789012:accesspoint/team', 'access point.* -s3alias'],
    ['arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-1', 'an ARN'],
    ['s3://acme/a/b/', 'URI. Set bucket_name to acme and prefix to a/b/.'],
    ['acme/daily', 'a path. Set bucket_name to acme and prefix to daily/.'],
    ['acme.s3.eu-central-1.amazonaws.com', 'Set bucket_name to acme.'],
    [
      'https://eu-central-1.console.aws.amazon.com/s3/buckets/acme?region=eu-central-1',
      'an address of the console of AWS. Set bucket_name to acme.',
    ],
    [
      'https://acme.s3.amazonaws.com/daily/?list-type=2',
      'Set bucket_name to acme and prefix to daily/.',
    ],
    ['https://s3.eu-central-1.amazonaws.com/acme', 'Set bucket_name to acme.'],
    ['https://minio.acme.com/exports', 'a URL.*endpoint_url'],
    ['tenant:acme', 'tenant. Set bucket_name to acme.'],
    ['acme--euc1-az1--x-s3', 'S3 Express'],
    ['team--ol-s3', 'Object Lambda'],
    ['gs://acme/a', 'Google.*bucket_name to acme and prefix to a/.*storage.googleapis.com'],
    ['https://storage.googleapis.com/acme', 'Google.*bucket_name to acme\\. Set endpoint_url'],
    ['abfss://a@acme.dfs.core.windows.net/x', 'Azure'],
    ['Acme_1', '3 to 63 lower case'],
  ])('says what %s is, and what to write where', (bucket, says) => {
    expect(named(bucket)).toMatch(new RegExp(`^bucket_name: .*(?:${says})`));
  });

  it('takes names of other stores by their own rule, and says it', () => {
    for (const name of ['Acme_1', 'acme--x-s3']) expect(named(name, elsewhere)).toBe('');
    expect(named('team-8xq-s3alias')).toBe('');
    expect(named('tenant:acme', elsewhere)).toContain('access key of that tenant');
    expect(named('-acme', elsewhere)).toContain('2 to 255');
    const express = 'https://s3express-euc1-az1.eu-central-1.amazonaws.com';
    expect(named('acme--x-s3', express)).toContain('S3 Express');
  });

  it('takes no temporary key of AWS, and names role_arn', () => {
    const temporary = { aws_access_key_id: 'ASIAQWERTYUIOPASDFGH' };
    expect(validate(temporary)).toMatch(/^aws_access_key_id: .*role_arn/);
    expect(validate({ ...temporary, endpoint_url: elsewhere })).toBe('');
  });
});

const enclose = (directory: unknown) => fileDefinition.enclose?.({ directory }, 7)?.directory;

test.each([
  ['a', '7/a'],
  ['8/a', '7/8/a'],
  ['77/a', '7/77/a'],
  ['07/a', '7/07/a'],
  ['7', '7'],
  ['7/a', '7/a'],
  ['../8', '7/../8'],
  ['/8', '7//8'],
  // The check of the config refuses these.
  ['', ''],
  [8, 8],
])('directory %j of project 7 becomes %j', (directory, enclosed) => {
  expect(enclose(directory)).toBe(enclosed);
});
