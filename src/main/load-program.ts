const { any } = AbortSignal;
const partsOf = new WeakMap<AbortSignal, readonly AbortSignal[]>();

/** Node 20 holds what it joins weakly: a time limit that nothing else holds is collected, and never ends (nodejs/node#57736). */
AbortSignal.any = (signals) => {
  const joined = any.call(AbortSignal, signals);
  partsOf.set(joined, signals);
  return joined;
};

/** This process, or all of the machine, may open no more files. */
const outOfFiles = new Set(['EMFILE', 'ENFILE']);

const neededFiles = 1_024;

/** Loads the modules of a program. Node opens most of their files at the same moment. */
export async function loadProgram(load: () => Promise<unknown>): Promise<void> {
  try {
    await load();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    // Node takes a package.json that it cannot open for one that is not there.
    const isOut = outOfFiles.has(code) || (code.startsWith('ERR_') && fileLimit() < neededFiles);
    if (!isOut) throw error;
    process.stderr.write(
      `sluice: this process may open too few files (${code}). It needs ${neededFiles}: set ulimit -n ${neededFiles}, or LimitNOFILE=${neededFiles} of the unit.\n`,
    );
    process.exit(1);
  }
}

/** The number of files that this process may open; without end if the system does not say. */
function fileLimit(): number {
  const { userLimits } = process.report.getReport() as {
    readonly userLimits?: { readonly open_files?: { readonly soft?: unknown } };
  };
  const limit = Number(userLimits?.open_files?.soft);
  return Number.isFinite(limit) ? limit : Number.POSITIVE_INFINITY;
}
