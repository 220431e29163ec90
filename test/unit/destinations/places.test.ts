import { describe, expect, it } from 'vitest';
import { s3Definition } from '../../../src/rows/destinations/s3/definition.ts';

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
    [null, 'https://s3.dualstack.eu-central-1.amazonaws.com'],
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
