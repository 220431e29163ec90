import { describe, expect, test } from 'vitest';
import { authenticate } from '../../support/s3-server/authentication.ts';
import { decodeAwsChunked } from '../../support/s3-server/aws-chunked.ts';
import { operationOf } from '../../support/s3-server/operations.ts';
import type { S3Request } from '../../support/s3-server/request.ts';
import { emptySha256, parseAmzDate } from '../../support/s3-server/signature.ts';

// The worked examples of AWS's documentation, with its own keys and signatures:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, sigv4-query-string-auth.html,
// sigv4-streaming.html and sigv4-streaming-trailers.html
const credentials = [
  {
    accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
    secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  },
];
const amzDate = '20130524T000000Z';
const credential = 'AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request';

interface Example {
  method: string;
  path: string;
  query?: [string, string][];
  headers: Record<string, string>;
  signature?: string;
}

function request({ method, path, query = [], headers, signature }: Example): S3Request {
  const all: Record<string, string> = { host: 'examplebucket.s3.amazonaws.com', ...headers };
  if (signature !== undefined) {
    all['x-amz-date'] = amzDate;
    const names = Object.keys(all).sort().join(';');
    all.authorization = `AWS4-HMAC-SHA256 Credential=${credential},SignedHeaders=${names},Signature=${signature}`;
  }
  const bucket = 'examplebucket';
  const key = path.slice(1) || undefined;
  const operation = operationOf({ method, query, headers: all, bucket, key });
  const receivedAt = parseAmzDate(amzDate) ?? 0;
  return { id: '1', method, path, query, headers: all, bucket, key, operation, receivedAt };
}

const believe = (example: Example) =>
  authenticate(request(example), { credentials, region: 'us-east-1' });

const empty = { 'x-amz-content-sha256': emptySha256 };

const examples: Record<string, Example> = {
  'GET of a range': {
    method: 'GET',
    path: '/test.txt',
    headers: { ...empty, range: 'bytes=0-9' },
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  'PUT of a key with a dollar': {
    method: 'PUT',
    path: '/test$file.text',
    headers: {
      date: 'Fri, 24 May 2013 00:00:00 GMT',
      'x-amz-content-sha256': '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
      'x-amz-storage-class': 'REDUCED_REDUNDANCY',
    },
    signature: '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  },
  'GET of a subresource': {
    method: 'GET',
    path: '/',
    query: [['lifecycle', '']],
    headers: empty,
    signature: 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  },
  'GET of a listing': {
    method: 'GET',
    path: '/',
    query: [
      ['prefix', 'J'],
      ['max-keys', '2'],
    ],
    headers: empty,
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
};

const presigned: Example = {
  method: 'GET',
  path: '/test.txt',
  query: [
    ['X-Amz-Algorithm', 'AWS4-HMAC-SHA256'],
    ['X-Amz-Credential', credential],
    ['X-Amz-Date', amzDate],
    ['X-Amz-Expires', '86400'],
    ['X-Amz-SignedHeaders', 'host'],
    ['X-Amz-Signature', 'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404'],
  ],
  headers: {},
};

describe("Signature Version 4, by AWS's own examples", () => {
  for (const [name, example] of Object.entries(examples)) {
    test(`${name} is accepted, and refused with one digit changed`, () => {
      expect(believe(example).payloadHash).toBe(example.headers['x-amz-content-sha256']);
      const signature = (example.signature ?? '').replace(/.$/, (last) =>
        last === '0' ? '1' : '0',
      );
      expect(() => believe({ ...example, signature })).toThrow('does not match');
    });
  }

  test('a presigned URL is accepted until it expires, and not one second longer', () => {
    expect(believe(presigned).payloadHash).toBe('UNSIGNED-PAYLOAD');
    const query = presigned.query?.map(([name, value]): [string, string] => [
      name,
      name === 'X-Amz-Expires' ? '86401' : value,
    ]);
    expect(() => believe({ ...presigned, query: query ?? [] })).toThrow('does not match');
  });

  const seed = (mode: string, more: Record<string, string>, signature: string) =>
    believe({
      method: 'PUT',
      path: '/examplebucket/chunkObject.txt',
      headers: {
        host: 's3.amazonaws.com',
        'content-encoding': 'aws-chunked',
        'x-amz-content-sha256': mode,
        'x-amz-decoded-content-length': '66560',
        'x-amz-storage-class': 'REDUCED_REDUNDANCY',
        ...more,
      },
      signature,
    }).chunkSigner;

  const framed = (signatures: string[], end: string): Buffer[] => {
    const sizes = [65_536, 1_024, 0];
    const head = (index: number) =>
      `${(sizes[index] ?? 0).toString(16)};chunk-signature=${signatures[index]}\r\n`;
    return [
      Buffer.from(`${head(0)}${'a'.repeat(65_536)}\r\n`),
      Buffer.from(`${head(1)}${'a'.repeat(1_024)}\r\n${head(2)}${end}`),
    ];
  };

  async function* stream(pieces: Buffer[]): AsyncGenerator<Buffer> {
    yield* pieces;
  }

  test('the example of signed chunks is unwrapped', async () => {
    const signer = seed(
      'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
      { 'content-length': '66824' },
      '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9',
    );
    const pieces = framed(
      [
        'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
        '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
        'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9',
      ],
      '\r\n',
    );
    const data: Buffer[] = [];
    for await (const piece of decodeAwsChunked(stream(pieces), { signer, trailing: false })) {
      data.push(piece);
    }
    expect(Buffer.concat(data).equals(Buffer.alloc(66_560, 'a'))).toBe(true);
  });

  test('the example of signed chunks with a signed trailer is unwrapped', async () => {
    const signer = seed(
      'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER',
      { 'x-amz-trailer': 'x-amz-checksum-crc32c' },
      '106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e',
    );
    const pieces = framed(
      [
        'b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2',
        '1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7',
        '2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992',
      ],
      'x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n',
    );
    const body = decodeAwsChunked(stream(pieces), { signer, trailing: true });
    let next = await body.next();
    while (!next.done) next = await body.next();
    expect([...next.value]).toEqual([['x-amz-checksum-crc32c', 'sOO8/Q==']]);
  });
});
