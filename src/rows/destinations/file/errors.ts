import { type ErrorCode, SluiceError } from '../../../foundation/domain/errors.ts';

/** The meaning of the file system's codes. Others may be transient (EIO, EMFILE, EBUSY, ESTALE …). */
const codes: Record<string, ErrorCode> = {
  EACCES: 'destination.access_denied',
  EPERM: 'destination.access_denied',
  EROFS: 'destination.access_denied',
  EISDIR: 'destination.invalid_config',
  ELOOP: 'destination.invalid_config',
  ENAMETOOLONG: 'destination.invalid_config',
  ENOTDIR: 'destination.invalid_config',
  EXDEV: 'destination.invalid_config',
};

/** Without the path: only the operator may see it. */
export function toDestinationError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  const code = systemCode(error);
  if (code === null) return new SluiceError('internal.unexpected', undefined, error);
  return new SluiceError(codes[code] ?? 'destination.unavailable', code, error);
}

/** `ENOENT` and the like; null if the error is not the file system's. */
export function systemCode(error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' ? code : null;
}

export async function withOurErrors<T>(operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw toDestinationError(error);
  }
}
