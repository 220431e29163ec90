/** How stores with S3's protocol differ from S3. Everything else is as in S3. */
export interface S3Quirks {
  /** An If-Match with its quotes never fits: Ceph RGW 16. */
  quotedIfMatch?: 'refuse';
  /** On PutObject and CompleteMultipartUpload: the condition is ignored, or answered 501. */
  ifNoneMatch?: 'ignore' | 'refuse';
  ifMatch?: 'ignore' | 'refuse';
  /**
   * CreateMultipartUpload does not know checksums and does not echo them; `drop-parts`: and the list
   * of a completion loses the parts that name one, as OpenStack Swift does it.
   */
  checksums?: 'ignore' | 'drop-parts';
  /** Conditions of CompleteMultipartUpload alone. */
  completeConditions?: 'ignore' | 'refuse';
  /** A missing object is answered 404 without a body. */
  missingObject?: 'empty';
  /** ListMultipartUploads is answered 501. */
  listUploads?: 'refuse';
  /**
   * A part that comes after its upload was completed is taken. If its bytes differ, the object cannot
   * be read any more: OpenStack Swift.
   */
  lateParts?: 'take';
  /** The first answer to a completion has an empty ETag, the next ones have one without quotes: Ceph RGW 16. */
  completionTag?: 'empty';
  /** Completing an unknown upload is answered 500, listing its parts NoSuchKey: Ceph RGW 16. */
  unknownUploads?: 'fail';
  /** Aborting an upload that is complete is answered NoSuchKey: OpenStack Swift. */
  abortOfCompleted?: 'no-such-key';
}
