/** This process, or all of the machine, may open no more files. */
const outOfFiles = new Set(['EMFILE', 'ENFILE']);

/** Loads the modules of a program. Node opens most of their files at the same moment. */
export async function loadProgram(load: () => Promise<unknown>): Promise<void> {
  try {
    await load();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (!outOfFiles.has(code)) throw error;
    process.stderr.write(
      `sluice: this process may open too few files (${code}). It needs 1024: set ulimit -n 1024, or LimitNOFILE=1024 of the unit.\n`,
    );
    process.exit(1);
  }
}
