import { loadProgram } from './load-program.ts';

await loadProgram(() => import('./run-all-in-one.ts'));
