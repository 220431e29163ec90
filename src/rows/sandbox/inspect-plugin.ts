import type { Problem } from '../../foundation/domain/problem.ts';
import { SandboxError } from './limits.ts';
import { describeProblem, findSourceProblems } from './sandbox.ts';

/**
 * What is wrong with a plugin's source, each with its line if it has one: a mistake in its text, an import, an
 * export or a field of `meta` that plugins do not have here. None: the plugin can be installed. It
 * starts a sandbox, in which the text of the module runs, but no hook.
 *
 * @throws SandboxError with the fault `unavailable` if no sandbox can be started
 */
export async function inspectPlugin(source: string): Promise<Problem[]> {
  try {
    const found = await findSourceProblems(source);
    return found.map((problem) => fault('source', describeProblem(problem)));
  } catch (error) {
    if (!(error instanceof SandboxError) || error.fault === 'unavailable') throw error;
    return [fault('source', `The plugin cannot be loaded: ${error.message}`)];
  }
}

function fault(attr: string, detail: string): Problem {
  return { code: 'invalid_input', detail, attr };
}
