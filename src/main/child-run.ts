import { tuneGarbageCollection } from '../service/admission/tune-garbage-collection.ts';
import { loadProgram } from './load-program.ts';

tuneGarbageCollection();
await loadProgram(() => import('./run-child.ts'));
