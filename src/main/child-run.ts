import { tuneGarbageCollection } from '../service/admission/process-memory.ts';
import { loadProgram } from './load-program.ts';

tuneGarbageCollection();
await loadProgram(() => import('./run-child.ts'));
