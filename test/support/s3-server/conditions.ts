import { S3Error } from './errors.ts';
import type { S3Quirks } from './quirks.ts';
import type { S3Request } from './request.ts';
import type { Bucket, StoredObject } from './storage.ts';

const failed = (condition: string) =>
  new S3Error('PreconditionFailed', { details: { Condition: condition } });

const unquoted = (etag: string): string => etag.trim().replaceAll('"', '');

function matches(header: string, object: StoredObject): boolean {
  return header
    .split(',')
    .some((etag) => etag.trim() === '*' || unquoted(etag) === unquoted(object.etag));
}

/**
 * Takes note of the key's state as a write comes in, and gives the check to make in the same turn as
 * the write itself: 412 if the condition does not hold, 404 for If-Match on no object, 409 if
 * the object was deleted in between.
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
 */
export function beginConditionalWrite(
  request: S3Request,
  bucket: Bucket,
  key: string,
  quirks: S3Quirks = {},
): () => void {
  const { ifNoneMatch, ifMatch } = conditionsOf(request, quirks);
  if (ifNoneMatch !== undefined && (ifNoneMatch !== '*' || ifMatch !== undefined)) {
    throw new S3Error('NotImplemented', { details: { Header: 'If-None-Match' } });
  }
  if (ifMatch === '*') throw new S3Error('NotImplemented', { details: { Header: 'If-Match' } });
  const deletions = bucket.deletions(key);
  return () => {
    if (ifNoneMatch === undefined && ifMatch === undefined) return;
    const object = bucket.objects.get(key);
    if (bucket.deletions(key) !== deletions) {
      throw new S3Error('ConditionalRequestConflict', {
        details: { Condition: ifMatch === undefined ? 'If-None-Match' : 'If-Match', Key: key },
      });
    }
    if (ifNoneMatch !== undefined && object) throw failed('If-None-Match');
    if (ifMatch !== undefined) {
      if (!object) throw new S3Error('NoSuchKey', { details: { Key: key } });
      const misread = quirks.quotedIfMatch === 'refuse' && ifMatch.includes('"');
      if (misread || !matches(ifMatch, object)) throw failed('If-Match');
    }
  };
}

/** The conditions of a write as far as the store knows them. */
function conditionsOf({ operation, headers }: S3Request, quirks: S3Quirks) {
  const ifNoneMatch = headers['if-none-match'];
  const ifMatch = headers['if-match'];
  if (operation === 'CompleteMultipartUpload') {
    const { completeConditions } = quirks;
    if (completeConditions === 'ignore') return { ifNoneMatch: undefined, ifMatch: undefined };
    if (completeConditions === 'refuse' && (ifNoneMatch ?? ifMatch) !== undefined) {
      throw new S3Error('NotImplemented');
    }
  }
  for (const [value, quirk] of [
    [ifNoneMatch, quirks.ifNoneMatch],
    [ifMatch, quirks.ifMatch],
  ]) {
    if (value !== undefined && quirk === 'refuse') throw new S3Error('NotImplemented');
  }
  return {
    ifNoneMatch: quirks.ifNoneMatch === 'ignore' ? undefined : ifNoneMatch,
    ifMatch: quirks.ifMatch === 'ignore' ? undefined : ifMatch,
  };
}

/** If-Match and If-None-Match of a read: 412 and 304. The date conditions are not looked at. */
export function checkReadConditions(request: S3Request, object: StoredObject): void {
  const ifMatch = request.headers['if-match'];
  const ifNoneMatch = request.headers['if-none-match'];
  if (ifMatch !== undefined && !matches(ifMatch, object)) throw failed('If-Match');
  if (ifNoneMatch !== undefined && matches(ifNoneMatch, object)) {
    throw new S3Error('NotModified', { headers: { etag: object.etag } });
  }
}

/** If-Match of a DELETE. */
export function checkDeleteCondition(request: S3Request, object: StoredObject | undefined): void {
  const ifMatch = request.headers['if-match'];
  if (ifMatch === undefined) return;
  if (!object || !matches(ifMatch, object)) throw failed('If-Match');
}
