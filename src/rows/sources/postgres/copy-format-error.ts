/** The COPY stream does not follow PostgreSQL's binary format. */
export class CopyFormatError extends Error {
  override readonly name = 'CopyFormatError';
}
