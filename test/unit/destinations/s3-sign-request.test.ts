import { describe, expect, it } from 'vitest';
import { queryString } from '../../../src/rows/destinations/s3/query-string.ts';
import {
  emptyHash,
  RequestSigner,
  sha256,
} from '../../../src/rows/destinations/s3/sign-request.ts';

/** The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */
const keys = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const at = Date.parse('2013-05-24T00:00:00Z');
const host = 'examplebucket.s3.amazonaws.com';
const signer = new RequestSigner({ region: 'us-east-1', service: 's3' });

describe('a request', () => {
  it.each([
    [
      'that gets a range',
      {
        ...{ method: 'GET', path: '/test.txt', query: '', payloadHash: emptyHash },
        headers: { host, range: 'bytes=0-9' },
      },
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    ],
    [
      'that puts an object',
      {
        ...{ method: 'PUT', path: '/test%24file.text', query: '' },
        payloadHash: sha256('Welcome to Amazon S3.'),
        headers: {
          host,
          date: 'Fri, 24 May 2013 00:00:00 GMT',
          'x-amz-storage-class': 'REDUCED_REDUNDANCY',
        },
      },
      '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
    ],
    [
      'with a query',
      {
        ...{ method: 'GET', path: '/', payloadHash: emptyHash },
        query: queryString({ prefix: 'J', 'max-keys': '2' }),
        headers: { host },
      },
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    ],
    [
      'with a query without a value',
      {
        ...{ method: 'GET', path: '/', payloadHash: emptyHash },
        query: queryString({ lifecycle: '' }),
        headers: { host },
      },
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    ],
  ])('%s has the signature that AWS documents', (_, request, signature) => {
    const { authorization } = signer.sign(request, keys, at);
    expect(authorization).toMatch(new RegExp(`Signature=${signature}$`));
  });

  it('names and signs the token of a session', () => {
    const request = { method: 'GET', path: '/a', query: '', headers: { host }, payloadHash: '' };
    const headers = signer.sign(request, { ...keys, sessionToken: 'of a role' }, at);
    expect(headers['x-amz-security-token']).toBe('of a role');
    expect(headers.authorization).toContain(';x-amz-security-token,');
  });

  it('is signed with the key of its day', () => {
    const request = { method: 'GET', path: '/a', query: '', headers: { host }, payloadHash: '' };
    const own = () => new RequestSigner({ region: 'us-east-1', service: 's3' });
    const [today, tomorrow] = [at, at + 86_400_000];
    signer.sign(request, keys, today);
    expect(signer.sign(request, keys, tomorrow)).toEqual(own().sign(request, keys, tomorrow));
  });
});
