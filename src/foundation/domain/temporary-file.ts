const temporaryNames = /(^|[\\/])sluice-(run|rows|verify)-[^\\/]*/;

/** Says whether the operating system refuses a temporary file: its folder is missing, read-only, denied or broken. */
export function isOfTemporaryFile(error: unknown): boolean {
  if (!(error instanceof Error) || !('syscall' in error)) return false;
  return 'path' in error && temporaryNames.test(String(error.path));
}
