import { loadProgram } from './load-program.ts';

await loadProgram(() => import('./run-verify.ts'));
